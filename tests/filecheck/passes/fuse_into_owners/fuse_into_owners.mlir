// RUN: gathernest-opt %s -p "canonical,lower-to-nest,fold-bounds,erase-sizes,drop-unit-loops,owner-computes{owners=2},fuse-into-owners"

// CHECK: gather.loop owners(%first) = %{{.*}} to %n_owned step %part {
// CHECK-NEXT: %limit = arith.addi %first, %part : index
// CHECK-NEXT: %end = arith.minsi %limit, %n_owned : index
// CHECK-NEXT: gather.loop clear_axis(%axis) = %first to %end step
// CHECK: gather.loop ordered indices
// CHECK: gather.accumulate
// CHECK: gather.loop scale_axis(%axis_1) = %first to %end step
func.func @gather(%grad: tensor<70x6xf32>, %indices: tensor<70xi64>) -> tensor<9x6xf32> {
  %r = gather.gather_grad %grad, %indices axis 0 batch_dims 0 bounds zero scale 2.0 : tensor<70x6xf32>, tensor<70xi64> -> tensor<9x6xf32>
  func.return %r : tensor<9x6xf32>
}
