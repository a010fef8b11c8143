// RUN: gathernest-opt %s -p "canonical,lower-to-nest,fold-bounds,erase-sizes,drop-unit-loops,owner-computes{owners=2},interleave-owners{block=4},fuse-into-owners"

// CHECK: gather.loop owners(%first) = %{{.*}} to %n_first step %c4 {
// CHECK: gather.loop clear_axis_o(%axis_o) = %first to %n_axis step %c8
// CHECK-NEXT: %limit = arith.addi %axis_o, %c4 : index
// CHECK-NEXT: %end = arith.minsi %limit, %n_axis : index
// CHECK-NEXT: gather.loop clear_axis_i(%axis) = %axis_o to %end step
// CHECK: gather.loop ordered indices
// CHECK: gather.loop scale_axis_o
// CHECK: gather.loop scale_axis_i
func.func @gather(%grad: tensor<70x6xf32>, %indices: tensor<70xi64>) -> tensor<9x6xf32> {
  %r = gather.gather_grad %grad, %indices axis 0 batch_dims 0 bounds zero scale 2.0 : tensor<70x6xf32>, tensor<70xi64> -> tensor<9x6xf32>
  func.return %r : tensor<9x6xf32>
}
