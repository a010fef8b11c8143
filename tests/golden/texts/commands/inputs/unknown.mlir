func.func @gather(%data: tensor<9x4xf32>, %indices: tensor<5xi64>) -> tensor<5x4xf32> {
  %result = gather.gathr %data, %indexes axis 0 batch_dims 0 bounds error
      : tensor<9x4xf32>, tensor<5xi64> -> tensor<5x4xf32>
  func.return %result : tensor<5x4xf32>
}
