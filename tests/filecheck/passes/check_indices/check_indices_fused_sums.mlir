// RUN: gathernest-opt %s -p "nest,erase-sizes,tile-loops{loops=indices sizes=16},parallelize-loops{loops=indices_o},check-indices{how=fused}"

// CHECK: -> i64 attributes {{{.*}}gather.fresh_out}
// CHECK: gather.loop clear_indices
// CHECK: %n_outside = gather.loop parallel indices_o(%i_o) = %{{.*}} to %n_indices step %c16 sum
// CHECK: %first = arith.muli %i_o, %n_bag_1 : index
// CHECK: %last = arith.muli %end, %n_bag_1 : index
// CHECK: %n_outside_1 = gather.loop check_indices(%i_1) = %first to %last step %{{.*}} sum
// CHECK: scf.if %all_inside
// CHECK: gather.loop indices_i(%i_i) = %i_o to
// CHECK: gather.loop ordered bag
// CHECK: gather.yield %n_outside_1 : i64
// CHECK: func.return %n_outside : i64
func.func @gather(%data: tensor<9x40xf32>, %indices: tensor<70x5xi64>) -> tensor<70x40xf32> {
  %r = gather.gather_reduce %data, %indices bounds error : tensor<9x40xf32>, tensor<70x5xi64> -> tensor<70x40xf32>
  func.return %r : tensor<70x40xf32>
}
