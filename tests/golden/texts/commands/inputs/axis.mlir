func.func @gather(%data: tensor<9x4xf32>, %indices: tensor<5xi64>) -> tensor<5x4xf32> {
  // expected-error @+1 {{axis 7 is out of range [-2, 1]}}
  %result = gather.gather %data, %indices axis 7 batch_dims 0 bounds error
      : tensor<9x4xf32>, tensor<5xi64> -> tensor<5x4xf32>
  func.return %result : tensor<5x4xf32>
}
