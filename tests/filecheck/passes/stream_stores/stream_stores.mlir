// RUN: gathernest-opt %s -p "nest,erase-sizes,drop-unit-loops,vectorize-inner{lanes=8},stream-stores"

// CHECK: %base = 
// CHECK: %address = arith.addi %base, %offset : index
// CHECK: %over = arith.remui %address, %c16
// CHECK: arith.remui %short, %c16
// CHECK: %fits = arith.cmpi eq, %beside, %{{.*}} : index
// CHECK: %aligned = arith.select %fits, %{{.*}}, %n_inner : index
// CHECK: gather.loop inner_head(%j) = %{{.*}} to %aligned step
// CHECK: memref.store %{{.*}} {nontemporal = true}
// CHECK: gather.loop inner(%j_1) = %aligned to %whole_1 step %c8
// CHECK: vector.store %{{.*}} {alignment = 16 : i64, nontemporal = true}
// CHECK: gather.loop inner_rest(%j_2) = %whole_1 to %n_inner step
// CHECK: memref.store %{{.*}} {nontemporal = true}
func.func @gather(%data: tensor<9x40xf32>, %indices: tensor<70xi64>) -> tensor<70x40xf32> {
  %r = gather.gather %data, %indices axis 0 batch_dims 0 bounds zero : tensor<9x40xf32>, tensor<70xi64> -> tensor<70x40xf32>
  func.return %r : tensor<70x40xf32>
}
