// RUN: gathernest-opt %s -p "nest,drop-unit-loops,interchange-loops{order=inner,outer,indices,inner}" --verify-diagnostics

// expected-error@unknown {{expected every loop of the nest once (outer, indices, inner), got inner, outer, indices, inner}}
func.func @gather(%data: tensor<2x5x4xf32>, %indices: tensor<6xi64>) -> tensor<2x6x4xf32> {
  %r = gather.gather %data, %indices axis 1 batch_dims 0 bounds clip : tensor<2x5x4xf32>, tensor<6xi64> -> tensor<2x6x4xf32>
  func.return %r : tensor<2x6x4xf32>
}
