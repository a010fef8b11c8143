// RUN: gathernest-opt %s -p "canonical,lower-to-nest,fold-bounds,erase-sizes,drop-unit-loops,specialize-inner{bytes=128},vectorize-inner{lanes=8},prefetch{what=slices loop=indices ahead=4 locality=2}"

// Each step prefetches its place in a later row.
// CHECK: gather.loop ordered indices(%i)
// CHECK: %later = arith.addi %i, %c4
// CHECK: %ahead = arith.minsi %later, %last : index
// CHECK-NOT: memref.prefetch
// CHECK: gather.loop inner(%j_1)
// CHECK-NEXT: memref.prefetch %grad[%{{.*}}, %{{.*}}, %ahead, %j_1], read, locality<2>, data
func.func @gather(%grad: tensor<70x32xf32>, %indices: tensor<70xi64>) -> tensor<9x32xf32> {
  %r = gather.gather_grad %grad, %indices axis 0 batch_dims 0 bounds zero scale 2.0 : tensor<70x32xf32>, tensor<70xi64> -> tensor<9x32xf32>
  func.return %r : tensor<9x32xf32>
}
