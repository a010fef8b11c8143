// RUN: gathernest-opt %s -p "nest,erase-sizes,drop-unit-loops,tile-loops{loops=indices sizes=16},parallelize-loops{loops=indices_o},check-indices{how=fused loop=indices_o}"

// CHECK: -> i64 attributes {{{.*}}gather.fresh_out}
// CHECK: %n_outside = gather.loop parallel indices_o(%i_o) = %{{.*}} to %n_indices step %c16 sum
// CHECK: %n_outside_1 = gather.loop check_indices(%i) = %i_o to %end step %{{.*}} sum
// CHECK: %all_inside = arith.cmpi eq, %n_outside_1
// CHECK: scf.if %all_inside
// CHECK: gather.loop indices_i(%i_i) = %i_o to
// CHECK: gather.yield %n_outside_1 : i64
// CHECK: func.return %n_outside : i64
func.func @gather(%data: tensor<9x40xf32>, %indices: tensor<70xi64>) -> tensor<70x40xf32> {
  %r = gather.gather %data, %indices axis 0 batch_dims 0 bounds error : tensor<9x40xf32>, tensor<70xi64> -> tensor<70x40xf32>
  func.return %r : tensor<70x40xf32>
}
