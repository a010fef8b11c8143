// RUN: gathernest-opt %s -p "canonical,lower-to-nest,fold-bounds,erase-sizes,drop-unit-loops,prefetch{what=slices loop=indices ahead=64 locality=3}"

// A slice of one element, which the loop over the indices itself adds.
// CHECK: gather.loop ordered indices(%i)
// CHECK: %ahead = arith.minsi %later, %last : index
// CHECK-NEXT: memref.prefetch %grad[%{{.*}}, %{{.*}}, %ahead, %{{.*}}], read, locality<3>, data
// CHECK: gather.accumulate
func.func @gather(%grad: tensor<70xf32>, %indices: tensor<70xi64>) -> tensor<9xf32> {
  %r = gather.gather_grad %grad, %indices axis 0 batch_dims 0 bounds zero : tensor<70xf32>, tensor<70xi64> -> tensor<9xf32>
  func.return %r : tensor<9xf32>
}
