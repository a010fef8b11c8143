// RUN: gathernest-opt %s -p "nest,drop-unit-loops,tile-loops{loops=indices sizes=4},parallelize-loops{loops=outer,indices_o}"

// CHECK: gather.loop parallel outer(%o)
// CHECK: gather.loop parallel indices_o(%i_o)
// CHECK: gather.loop indices_i(%i_i)
func.func @gather(%data: tensor<2x5x4xf32>, %indices: tensor<6xi64>) -> tensor<2x6x4xf32> {
  %r = gather.gather %data, %indices axis 1 batch_dims 0 bounds clip : tensor<2x5x4xf32>, tensor<6xi64> -> tensor<2x6x4xf32>
  func.return %r : tensor<2x6x4xf32>
}
