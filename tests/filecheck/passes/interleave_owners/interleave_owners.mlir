// RUN: gathernest-opt %s -p "canonical,lower-to-nest,fold-bounds,erase-sizes,drop-unit-loops,owner-computes{owners=2},interleave-owners{block=4}"

// CHECK: %n_first = arith.minsi %{{.*}}, %n_owned : index
// CHECK-NEXT: gather.loop owners(%first) = %{{.*}} to %n_first step %c4 {
// CHECK: %offset = arith.subi %position, %first : index
// CHECK-NEXT: %c7 = arith.constant 7 : index
// CHECK-NEXT: %within = arith.andi %offset, %c7 : index
// CHECK-NEXT: %owned = arith.cmpi ult, %within, %c4 : index
func.func @gather(%grad: tensor<70x6xf32>, %indices: tensor<70xi64>) -> tensor<9x6xf32> {
  %r = gather.gather_grad %grad, %indices axis 0 batch_dims 0 bounds zero scale 2.0 : tensor<70x6xf32>, tensor<70xi64> -> tensor<9x6xf32>
  func.return %r : tensor<9x6xf32>
}
