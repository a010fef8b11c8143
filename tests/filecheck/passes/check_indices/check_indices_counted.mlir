// RUN: gathernest-opt %s -p "nest,erase-sizes,drop-unit-loops,owner-computes{owners=2},fuse-into-owners,tile-loops{loops=indices sizes=16},parallelize-loops{loops=owners},compact-indices{loop=indices_i},check-indices{how=counted}"

// CHECK: gather.fresh_out
// CHECK-NOT: check_indices
// CHECK: %size = arith.index_cast %n_axis_1 : index to i64
// CHECK: %n_all{{.*}} = arith.index_cast %{{.*}} : index to i64
// CHECK: %[[TOTAL:.*]] = gather.loop parallel owners(%first) = %{{.*}} sum
// CHECK: %[[TILES:.*]] = gather.loop ordered indices_o(%i_o) = %{{.*}} sum
// CHECK: gather.loop ordered compact_indices_i
// CHECK-NOT: arith.minui %wrapped
// CHECK: %owned = arith.cmpi ult, %offset, %part : index
// CHECK: %within = arith.cmpi ult, %position{{.*}}, %size : i64
// CHECK-NEXT: %owned_within = arith.andi %owned, %within : i1
// CHECK-NEXT: %one{{.*}} = arith.extui %owned_within : i1 to i64
// CHECK: %n_listed_2 = memref.load %count
// CHECK: gather.loop ordered indices_i
// CHECK: gather.accumulate
// CHECK: gather.yield %n_listed_2 : i64
// CHECK: gather.yield %[[TILES]] : i64
// CHECK: %n_missing = arith.subi %n_all{{.*}}, %[[TOTAL]] : i64
// CHECK-NEXT: %n_extra = arith.subi %[[TOTAL]], %n_all{{.*}} : i64
// CHECK-NEXT: %n_outside = arith.maxsi %n_missing, %n_extra : i64
// CHECK-NEXT: func.return %n_outside : i64
func.func @gather(%grad: tensor<70xf32>, %indices: tensor<70xi64>) -> tensor<9xf32> {
  %r = gather.gather_grad %grad, %indices axis 0 batch_dims 0 bounds error scale 2.0 : tensor<70xf32>, tensor<70xi64> -> tensor<9xf32>
  func.return %r : tensor<9xf32>
}
