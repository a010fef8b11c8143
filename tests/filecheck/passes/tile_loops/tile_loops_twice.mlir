// RUN: gathernest-opt %s -p "nest,drop-unit-loops,vectorize-inner{lanes=4},tile-loops{loops=indices,indices_o,inner sizes=4,2,3},tile-loops{loops=outer,outer_o sizes=2,2}"

// CHECK: %c4 = arith.constant 4
// CHECK: gather.loop outer_o_o(%o_o_o) = %{{.*}} to %n_outer step %c4 {
// CHECK-NEXT: %end = arith.addi %o_o_o, %c4 : index
// CHECK-NEXT: gather.loop outer_o_i(%o_o_i) = %o_o_o to %end step %c2_{{[0-9]+}} {
// CHECK: %c8 = arith.constant 8
// CHECK-NEXT: gather.loop indices_o_o(%i_o_o) = %{{.*}} to %n_indices step %c8 {
// CHECK-NEXT: [[LIMIT:%.*]] = arith.addi %i_o_o, %c8 : index
// CHECK-NEXT: [[END:%.*]] = arith.minsi [[LIMIT]], %n_indices : index
// CHECK-NEXT: gather.loop indices_o_i(%i_o_i) = %i_o_o to [[END]] step [[FOUR:%.*]] {
// CHECK-NEXT: [[INNER:%.*]] = arith.addi %i_o_i, [[FOUR]] : index
// CHECK: gather.loop indices_i(%i_i) = %i_o_i to
// CHECK: gather.loop inner_o(%j_o) = %{{.*}} to %{{.*}} step %c12
// CHECK: gather.loop inner_i(%j_i) = %j_o to %{{.*}} step %c4
// CHECK: gather.loop inner_rest(%j)
func.func @gather(%data: tensor<8x5x13xf32>, %indices: tensor<?xi64>) -> tensor<8x?x13xf32> {
  %r = gather.gather %data, %indices axis 1 batch_dims 0 bounds clip : tensor<8x5x13xf32>, tensor<?xi64> -> tensor<8x?x13xf32>
  func.return %r : tensor<8x?x13xf32>
}
