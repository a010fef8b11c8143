// RUN: gathernest-opt %s -p "canonical,lower-gradient-to-nest,fold-bounds,erase-sizes,drop-unit-loops,specialize-inner{bytes=512},tile-loops{loops=inner sizes=64},interchange-loops{order=inner_o,indices,inner_i},vectorize-inner{lanes=4}"

// Pieces of rows are for tables in a cache, where asking ahead costs.
// CHECK: gather.loop inner_o
// CHECK-NOT: memref.prefetch
// CHECK: gather.accumulate
func.func @gather(%grad: tensor<70x128xf32>, %indices: tensor<70xi64>) -> tensor<9x128xf32> {
  %r = gather.gather_grad %grad, %indices axis 0 batch_dims 0 bounds clip : tensor<70x128xf32>, tensor<70xi64> -> tensor<9x128xf32>
  func.return %r : tensor<9x128xf32>
}
