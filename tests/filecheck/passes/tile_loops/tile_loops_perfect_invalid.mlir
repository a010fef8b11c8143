// RUN: gathernest-opt %s -p "nest,drop-unit-loops,tile-loops{loops=indices sizes=4 tail=perfect}" --verify-diagnostics

// expected-error@unknown {{tail=perfect needs a trip count that 4 divides, but the trip count of indices is 6; use tail=guard}}
func.func @gather(%data: tensor<2x5x4xf32>, %indices: tensor<6xi64>) -> tensor<2x6x4xf32> {
  %r = gather.gather %data, %indices axis 1 batch_dims 0 bounds clip : tensor<2x5x4xf32>, tensor<6xi64> -> tensor<2x6x4xf32>
  func.return %r : tensor<2x6x4xf32>
}
