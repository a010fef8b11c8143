// RUN: gathernest-opt %s -p "nest,erase-sizes,drop-unit-loops,vectorize-inner{lanes=8},prefetch{what=rows loop=indices}"

// The row is prefetched once, though the remainder loop reads data, too.
// CHECK: memref.prefetch
// CHECK-NOT: memref.prefetch
// CHECK: gather.loop inner_rest
func.func @gather(%data: tensor<9x40xf32>, %indices: tensor<70xi64>) -> tensor<70x40xf32> {
  %r = gather.gather %data, %indices axis 0 batch_dims 0 bounds clip : tensor<9x40xf32>, tensor<70xi64> -> tensor<70x40xf32>
  func.return %r : tensor<70x40xf32>
}
