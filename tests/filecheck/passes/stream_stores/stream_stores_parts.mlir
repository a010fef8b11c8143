// RUN: gathernest-opt %s -p "nest,erase-sizes,drop-unit-loops,vectorize-inner{lanes=8},stream-stores"

// Elements up to a multiple of 16 bytes, parts of 16 up to one of 32, vectors of 32, parts, elements.
// CHECK: %over = arith.remui %address, %c32{{.*}} : index
// CHECK: %over_1 = arith.remui %over, %c16{{.*}} : index
// CHECK: arith.remui %trips, %c4{{.*}} : index
// CHECK: gather.loop inner_head(%{{.*}}) = %{{.*}} to %aligned step
// CHECK: memref.store %{{.*}} {nontemporal = true}
// CHECK: %first_4 = arith.select %fits, %first_3, %whole_1 : index
// CHECK: gather.loop inner_head_parts(%{{.*}}) = %aligned to %first_4 step %c4
// CHECK: {alignment = 16 : i64, nontemporal = true} : memref<{{.*}}>, vector<4xi32>
// CHECK: gather.loop inner(%{{.*}}) = %first_4 to %whole_2 step %c8
// CHECK: {alignment = 32 : i64, nontemporal = true} : memref<{{.*}}>, vector<8xi32>
// CHECK: gather.loop inner_rest_parts(%{{.*}}) = %whole_2 to %whole_1 step %c4
// CHECK: {alignment = 16 : i64, nontemporal = true} : memref<{{.*}}>, vector<4xi32>
// CHECK: gather.loop inner_rest(%{{.*}}) = %whole_1 to %n_inner step
// CHECK: memref.store %{{.*}} {nontemporal = true}
func.func @gather(%data: tensor<9x40xf32>, %indices: tensor<70xi64>) -> tensor<70x40xf32> {
  %r = gather.gather %data, %indices axis 0 batch_dims 0 bounds clip : tensor<9x40xf32>, tensor<70xi64> -> tensor<70x40xf32>
  func.return %r : tensor<70x40xf32>
}
