// RUN: gathernest-opt %s -p "nest,drop-unit-loops,vectorize-inner{lanes=8},stream-stores"

// Vectors of 32 bytes are stored whole from the first multiple of 32 on, and the ends of the row in parts of 16.
// CHECK: %over = arith.remui %address, %c32{{.*}} : index
// CHECK: %over_1 = arith.remui %over, %c16{{.*}} : index
// CHECK: %is_aligned = arith.cmpi eq, %over_1, %c0{{.*}} : index
// CHECK: arith.remui %short, %c32{{.*}} : index
// CHECK: %first = arith.addi %{{.*}}, %head
// CHECK: scf.if %is_aligned {
// CHECK: gather.loop inner_head(%{{.*}}) = %{{.*}} to %first step %c4
// CHECK: {alignment = 16 : i64, nontemporal = true} : memref<{{.*}}>, vector<4xi32>
// CHECK: gather.loop inner(%{{.*}}) = %first to %whole step %c8
// CHECK: {alignment = 32 : i64, nontemporal = true} : memref<{{.*}}>, vector<8xi32>
// CHECK: gather.loop inner_rest(%{{.*}}) = %whole to %{{.*}} step %c4
// CHECK: {alignment = 16 : i64, nontemporal = true} : memref<{{.*}}>, vector<4xi32>
// CHECK: } else {
// CHECK: gather.loop inner_cached(
// CHECK-NOT: nontemporal
func.func @gather(%data: tensor<9x64xf32>, %indices: tensor<70xi64>) -> tensor<70x64xf32> {
  %r = gather.gather %data, %indices axis 0 batch_dims 0 bounds clip : tensor<9x64xf32>, tensor<70xi64> -> tensor<70x64xf32>
  func.return %r : tensor<70x64xf32>
}
