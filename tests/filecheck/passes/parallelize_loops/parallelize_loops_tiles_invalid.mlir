// RUN: gathernest-opt %s -p "nest,drop-unit-loops,tile-loops{loops=outer sizes=2},parallelize-loops{loops=outer_o,outer_i}" --verify-diagnostics

// expected-error@unknown {{the bounds of outer_i come from outer_o; only one of them can be parallel}}
func.func @gather(%data: tensor<2x5x4xf32>, %indices: tensor<6xi64>) -> tensor<2x6x4xf32> {
  %r = gather.gather %data, %indices axis 1 batch_dims 0 bounds clip : tensor<2x5x4xf32>, tensor<6xi64> -> tensor<2x6x4xf32>
  func.return %r : tensor<2x6x4xf32>
}
