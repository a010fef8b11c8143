// RUN: gathernest-opt %s -p "canonical,lower-gradient-to-nest,fold-bounds,erase-sizes,drop-unit-loops,specialize-inner{bytes=256},vectorize-inner{lanes=4 ahead=0}"

// CHECK: gather.accumulate
// CHECK-NOT: memref.prefetch
func.func @gather(%grad: tensor<70x64xf32>, %indices: tensor<70xi64>) -> tensor<9x64xf32> {
  %r = gather.gather_grad %grad, %indices axis 0 batch_dims 0 bounds clip : tensor<70x64xf32>, tensor<70xi64> -> tensor<9x64xf32>
  func.return %r : tensor<9x64xf32>
}
