// RUN: gathernest-opt %s -p "nest,drop-unit-loops,tile-loops{loops=indices,inner sizes=4,2}"

// CHECK: gather.loop indices_o(%i_o) = %{{.*}} to %n_indices step %c4
// CHECK: %limit = arith.addi %i_o, %c4 : index
// CHECK: %end = arith.minsi %limit, %n_indices : index
// CHECK: gather.loop indices_i(%i_i) = %i_o to %end step
// CHECK: gather.loop inner_o(%j_o)
// CHECK: gather.loop inner_i(%j_i)
func.func @gather(%data: tensor<5x4xf32>, %indices: tensor<6xi64>) -> tensor<6x4xf32> {
  %r = gather.gather %data, %indices axis 0 batch_dims 0 bounds clip : tensor<5x4xf32>, tensor<6xi64> -> tensor<6x4xf32>
  func.return %r : tensor<6x4xf32>
}
