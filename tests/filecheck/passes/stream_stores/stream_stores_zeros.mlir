// RUN: gathernest-opt %s -p "canonical,lower-to-nest,fold-bounds,erase-sizes,drop-unit-loops,tile-loops{loops=clear_axis sizes=4},stream-stores"

// CHECK: gather.loop clear_axis_i(%axis_i)
// CHECK: %over = arith.remui %address, %c16
// CHECK: gather.loop clear_inner_head(%j) = %{{.*}} to %aligned step
// CHECK-NEXT: memref.store %nothing, {{.*}} {nontemporal = true}
// CHECK: gather.loop clear_inner(%j_1) = %aligned to %whole_1 step %c4
// CHECK-NEXT: %nothing_1 = vector.broadcast %nothing : f32 to vector<4xf32>
// CHECK-NEXT: vector.store %nothing_1, %out[%{{.*}}, %axis_i, %j_1] {alignment = 16 : i64, nontemporal = true}
// CHECK: gather.loop clear_inner_rest(%j_2) = %whole_1 to
// CHECK-NEXT: memref.store %nothing, {{.*}} {nontemporal = true}
// CHECK: gather.accumulate %{{.*}} : f32
func.func @gather(%grad: tensor<70x40xf32>, %indices: tensor<70xi64>) -> tensor<9x40xf32> {
  %r = gather.gather_grad %grad, %indices axis 0 batch_dims 0 bounds clip : tensor<70x40xf32>, tensor<70xi64> -> tensor<9x40xf32>
  func.return %r : tensor<9x40xf32>
}
