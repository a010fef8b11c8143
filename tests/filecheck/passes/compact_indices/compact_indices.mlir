// RUN: gathernest-opt %s -p "canonical,lower-to-nest,fold-bounds,erase-sizes,drop-unit-loops,owner-computes{owners=2},tile-loops{loops=indices sizes=16},parallelize-loops{loops=owners},compact-indices{loop=indices_i}"

// CHECK: gather.loop parallel owners(%first)
// CHECK-NEXT: %places = memref.alloca() : memref<16xi32>
// CHECK-NEXT: %count = memref.alloca() : memref<1xi64>
// CHECK: gather.loop ordered indices_o
// CHECK: memref.store %none, %count
// CHECK: gather.loop ordered compact_indices_i(%i_i)
// CHECK: %owned = arith.cmpi ult
// CHECK: %so_far = memref.load %count
// CHECK: memref.store %place, %places[%listed] : memref<16xi32>
// CHECK: %so_far_1 = arith.addi %so_far, %one : i64
// CHECK: gather.loop ordered indices_i(%k) = %{{.*}} to %listed_end step
// CHECK: memref.load %places[%k] : memref<16xi32>
// CHECK: memref.load %indices
// CHECK: %mine_1 = arith.andi
// CHECK-NEXT: gather.loop inner
// CHECK: gather.accumulate {{.*}} if %mine_1
func.func @gather(%grad: tensor<70x6xf32>, %indices: tensor<70xi64>) -> tensor<9x6xf32> {
  %r = gather.gather_grad %grad, %indices axis 0 batch_dims 0 bounds zero scale 2.0 : tensor<70x6xf32>, tensor<70xi64> -> tensor<9x6xf32>
  func.return %r : tensor<9x6xf32>
}
