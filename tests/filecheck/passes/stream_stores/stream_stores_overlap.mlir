// RUN: gathernest-opt %s -p "nest,drop-unit-loops,vectorize-inner{lanes=4},stream-stores"

// The row begins and ends with a vector that overlaps its neighbour; both may lie anywhere, and come before the others.
// CHECK: %short = arith.subi %c16{{.*}}, %over : index
// CHECK: %head = arith.divui %short, %c4{{.*}} : index
// CHECK: %first = arith.addi %{{.*}}, %head
// CHECK: %fits = arith.cmpi eq, %beside, %c0{{.*}} : index
// CHECK: scf.if %fits {
// CHECK: gather.loop inner_head(
// CHECK: {alignment = 1 : i64, nontemporal = true}
// CHECK: gather.loop inner_rest(
// CHECK: {alignment = 1 : i64, nontemporal = true}
// CHECK: gather.loop inner(%{{.*}}) = %first to %whole
// CHECK: {alignment = 16 : i64, nontemporal = true}
// CHECK: } else {
// CHECK: gather.loop inner_cached(
// CHECK: gather.loop inner_rest_cached(
// CHECK-NOT: nontemporal
func.func @gather(%data: tensor<9x42xf32>, %indices: tensor<70xi64>) -> tensor<70x42xf32> {
  %r = gather.gather %data, %indices axis 0 batch_dims 0 bounds zero : tensor<9x42xf32>, tensor<70xi64> -> tensor<70x42xf32>
  func.return %r : tensor<70x42xf32>
}
