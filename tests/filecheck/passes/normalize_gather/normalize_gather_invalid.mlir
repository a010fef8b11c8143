// RUN: gathernest-opt %s -p normalize-gather --verify-diagnostics --split-input-file

func.func @axis(%data: tensor<2x5xf32>, %indices: tensor<3xi64>) -> tensor<2x3xf32> {
  // expected-error@+1 {{axis 2 is out of range [-2, 1] for data of rank 2}}
  %r = gather.gather %data, %indices axis 2 batch_dims 0 bounds error : tensor<2x5xf32>, tensor<3xi64> -> tensor<2x3xf32>
  func.return %r : tensor<2x3xf32>
}

// -----

func.func @batch_dims(%data: tensor<2x5xf32>, %indices: tensor<2x3xi64>) -> tensor<2x3xf32> {
  // expected-error@+1 {{batch_dims -3 is out of range [-2, 2] for data of rank 2 and indices of rank 2}}
  %r = gather.gather %data, %indices axis 1 batch_dims -3 bounds error : tensor<2x5xf32>, tensor<2x3xi64> -> tensor<2x3xf32>
  func.return %r : tensor<2x3xf32>
}

// -----

func.func @after_axis(%data: tensor<2x5xf32>, %indices: tensor<2x3xi64>) -> tensor<2x3xf32> {
  // expected-error@+1 {{batch_dims 1 must not be larger than axis 0}}
  %r = gather.gather %data, %indices axis 0 batch_dims 1 bounds error : tensor<2x5xf32>, tensor<2x3xi64> -> tensor<2x3xf32>
  func.return %r : tensor<2x3xf32>
}

// -----

func.func @batch_sizes(%data: tensor<2x5xf32>, %indices: tensor<4x3xi64>) -> tensor<2x3xf32> {
  // expected-error@+1 {{the first 1 sizes of data and indices must be equal for batch_dims 1}}
  %r = gather.gather %data, %indices axis 1 batch_dims 1 bounds error : tensor<2x5xf32>, tensor<4x3xi64> -> tensor<2x3xf32>
  func.return %r : tensor<2x3xf32>
}
