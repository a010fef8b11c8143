// RUN: gathernest-opt %s -p "canonical,lower-to-nest,fold-bounds,erase-sizes,drop-unit-loops,owner-computes{owners=2},tile-loops{loops=indices sizes=16},compact-indices{loop=indices_i},vectorize-inner{lanes=4},prefetch{what=slices loop=indices_i ahead=1 locality=2}"

// A row of any size: the same place of a later row that is listed.
// CHECK: gather.loop ordered indices_i(%k)
// CHECK: %ahead = arith.minsi %later, %last : index
// CHECK: memref.load %places[%ahead]
// CHECK: gather.loop inner(%[[J:.*]])
// CHECK-NEXT: memref.prefetch %grad[%{{.*}}, %{{.*}}, %{{.*}}, %[[J]]], read, locality<2>, data
// CHECK-NOT: memref.prefetch
// CHECK: gather.loop inner_rest
func.func @gather(%grad: tensor<70x6xf32>, %indices: tensor<70xi64>) -> tensor<9x6xf32> {
  %r = gather.gather_grad %grad, %indices axis 0 batch_dims 0 bounds zero scale 2.0 : tensor<70x6xf32>, tensor<70xi64> -> tensor<9x6xf32>
  func.return %r : tensor<9x6xf32>
}
