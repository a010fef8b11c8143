// RUN: gathernest-opt %s -p "canonical,lower-to-nest,fold-bounds,drop-unit-loops,owner-computes{owners=2},parallelize-loops{loops=owners}"

// CHECK: %padded = arith.addi %n_owned, %{{.*}} : index
// CHECK: %share = arith.divui %padded, %{{.*}} : index
// CHECK: %part = arith.maxsi %share, %{{.*}} : index
// CHECK: gather.loop parallel owners(%first) = %{{.*}} to %n_owned step %part {
// CHECK-NEXT: gather.loop ordered indices(%i)
// CHECK: %offset = arith.subi %position, %first : index
// CHECK-NEXT: %owned = arith.cmpi ult, %offset, %part : index
// CHECK-NEXT: %mine = arith.andi %inside, %owned : i1
// CHECK-NEXT: gather.accumulate %element, %out[%{{.*}}, %{{.*}}, %position, %{{.*}}] if %mine
func.func @gather(%grad: tensor<6xf32>, %indices: tensor<6xi64>) -> tensor<5xf32> {
  %r = gather.gather_grad %grad, %indices axis 0 batch_dims 0 bounds zero : tensor<6xf32>, tensor<6xi64> -> tensor<5xf32>
  func.return %r : tensor<5xf32>
}
