// RUN: gathernest-opt %s -p "canonical,lower-to-nest,lower-to-nest,owner-computes{owners=2 axis=axes}" --verify-diagnostics --split-input-file

// expected-error@unknown {{there is no axis 'axes'; there is axis; did you mean 'axis'?}}
func.func @gather(%grad: tensor<6xf32>, %indices: tensor<6xi64>) -> tensor<5xf32> {
  %r = gather.gather_grad %grad, %indices axis 0 batch_dims 0 bounds zero : tensor<6xf32>, tensor<6xi64> -> tensor<5xf32>
  func.return %r : tensor<5xf32>
}

// -----

// expected-error@unknown {{expected one gather.accumulate, got 0; it is for gradients, after lower-to-nest}}
func.func @gather(%data: tensor<6xf32>, %indices: tensor<6xi64>) -> tensor<6xf32> {
  %r = gather.gather %data, %indices axis 0 batch_dims 0 bounds zero : tensor<6xf32>, tensor<6xi64> -> tensor<6xf32>
  func.return %r : tensor<6xf32>
}
