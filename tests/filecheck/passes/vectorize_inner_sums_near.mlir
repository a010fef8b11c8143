// RUN: gathernest-opt %s -p "canonical,lower-gradient-to-nest,fold-bounds,erase-sizes,drop-unit-loops,specialize-inner{bytes=124},vectorize-inner{lanes=4}"

// The processor sees far enough ahead by itself where rows are short.
// CHECK: gather.accumulate
// CHECK-NOT: memref.prefetch
func.func @gather(%grad: tensor<70x31xf32>, %indices: tensor<70xi64>) -> tensor<9x31xf32> {
  %r = gather.gather_grad %grad, %indices axis 0 batch_dims 0 bounds clip : tensor<70x31xf32>, tensor<70xi64> -> tensor<9x31xf32>
  func.return %r : tensor<9x31xf32>
}
