// RUN: gathernest-opt %s -p "nest,drop-unit-loops,tile-loops{loops=inner sizes=2}"

// A size that divides needs no guard.
// CHECK: gather.loop inner_o(%j_o) = %{{.*}} to %{{.*}} step %{{.*}} {
// CHECK-NEXT: %end = arith.addi %j_o, %c2{{.*}} : index
// CHECK-NEXT: gather.loop inner_i(%j_i) = %j_o to %end step
func.func @gather(%data: tensor<5x4xf32>, %indices: tensor<6xi64>) -> tensor<6x4xf32> {
  %r = gather.gather %data, %indices axis 0 batch_dims 0 bounds clip : tensor<5x4xf32>, tensor<6xi64> -> tensor<6x4xf32>
  func.return %r : tensor<6x4xf32>
}
