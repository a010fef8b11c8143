// RUN: gathernest-opt %s -p "nest,drop-unit-loops,parallelize-loops{loops=outer},tile-loops{loops=outer sizes=2}"

// CHECK: gather.loop parallel outer_o(
// CHECK: gather.loop outer_i(
// CHECK: gather.loop indices(
func.func @gather(%data: tensor<2x5x4xf32>, %indices: tensor<6xi64>) -> tensor<2x6x4xf32> {
  %r = gather.gather %data, %indices axis 1 batch_dims 0 bounds clip : tensor<2x5x4xf32>, tensor<6xi64> -> tensor<2x6x4xf32>
  func.return %r : tensor<2x6x4xf32>
}
