// RUN: gathernest-opt %s -p "nest,drop-unit-loops,vectorize-inner{lanes=8},stream-stores"

// CHECK: %is_aligned = arith.cmpi eq, %over, %{{.*}} : index
// CHECK: scf.if %is_aligned {
// CHECK: gather.loop inner(
// CHECK: vector.store %{{.*}} {alignment = 16 : i64, nontemporal = true}
// CHECK: } else {
// CHECK: gather.loop inner_cached(
// CHECK: vector.store
// CHECK-NOT: nontemporal
func.func @gather(%data: tensor<9x40xf32>, %indices: tensor<70xi64>) -> tensor<70x40xf32> {
  %r = gather.gather %data, %indices axis 0 batch_dims 0 bounds zero : tensor<9x40xf32>, tensor<70xi64> -> tensor<70x40xf32>
  func.return %r : tensor<70x40xf32>
}
