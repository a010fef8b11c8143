// RUN: gathernest-opt %s -p "canonical,lower-to-nest,fold-bounds,erase-sizes,drop-unit-loops,specialize-inner{bytes=128},vectorize-inner{lanes=8},prefetch{what=slices loop=indices ahead=4 locality=2}"

// The lines of a row, and that of its last element.
// CHECK: gather.loop ordered indices(%i)
// CHECK: %later = arith.addi %i, %c4
// CHECK: %ahead = arith.minsi %later, %last : index
// CHECK-COUNT-3: memref.prefetch %grad[%{{.*}}, %{{.*}}, %ahead, %c{{.*}}], read, locality<2>, data
// CHECK-NOT: memref.prefetch
// CHECK: gather.loop inner
func.func @gather(%grad: tensor<70x32xf32>, %indices: tensor<70xi64>) -> tensor<9x32xf32> {
  %r = gather.gather_grad %grad, %indices axis 0 batch_dims 0 bounds zero scale 2.0 : tensor<70x32xf32>, tensor<70xi64> -> tensor<9x32xf32>
  func.return %r : tensor<9x32xf32>
}
