// RUN: gathernest-opt %s -p "nest,drop-unit-loops,tile-loops{loops=indicez sizes=4}" --verify-diagnostics

// expected-error@unknown {{the nest has no loop 'indicez'; its loops are outer, indices, inner; did you mean 'indices'?}}
func.func @gather(%data: tensor<2x5x4xf32>, %indices: tensor<6xi64>) -> tensor<2x6x4xf32> {
  %r = gather.gather %data, %indices axis 1 batch_dims 0 bounds clip : tensor<2x5x4xf32>, tensor<6xi64> -> tensor<2x6x4xf32>
  func.return %r : tensor<2x6x4xf32>
}
