// RUN: gathernest-opt %s -p bufferize-gather --verify-diagnostics --split-input-file

// expected-error@unknown {{must return the result of one gather and nothing else}}
func.func @more(%data: tensor<5xi32>, %indices: tensor<3xi64>) -> tensor<5xi32> {
  %r = gather.gather %data, %indices axis 0 batch_dims 0 bounds zero : tensor<5xi32>, tensor<3xi64> -> tensor<3xi32>
  func.return %data : tensor<5xi32>
}

// -----

// expected-error@unknown {{are not multiples of the 4 bytes of an element; copy the array first}}
func.func @strides(%data: tensor<5xi32> {gather.byte_strides = array<i64: 7>}, %indices: tensor<3xi64>) -> tensor<3xi32> {
  %r = gather.gather %data, %indices axis 0 batch_dims 0 bounds zero : tensor<5xi32>, tensor<3xi64> -> tensor<3xi32>
  func.return %r : tensor<3xi32>
}

// -----

// expected-error@unknown {{elements of a strided array are complex<f32>; run erase-element-type first}}
func.func @complex(%data: tensor<5xcomplex<f32>> {gather.byte_strides = array<i64: 8>}, %indices: tensor<3xi64>) -> tensor<3xcomplex<f32>> {
  %r = gather.gather %data, %indices axis 0 batch_dims 0 bounds zero : tensor<5xcomplex<f32>>, tensor<3xi64> -> tensor<3xcomplex<f32>>
  func.return %r : tensor<3xcomplex<f32>>
}

// -----

// expected-error@unknown {{@two must return the result of one gather and nothing else}}
func.func @two(%data: tensor<5xi32>, %indices: tensor<3xi64>) -> tensor<3xi32> {
  %r = gather.gather %data, %indices axis 0 batch_dims 0 bounds zero : tensor<5xi32>, tensor<3xi64> -> tensor<3xi32>
  %s = gather.gather %data, %indices axis 0 batch_dims 0 bounds clip : tensor<5xi32>, tensor<3xi64> -> tensor<3xi32>
  func.return %r : tensor<3xi32>
}

// -----

// expected-error@unknown {{data must be an argument, and indices an argument or a constant}}
func.func @computed(%data: tensor<5xi32>, %indices: tensor<3xi64>) -> tensor<3xi32> {
  %twice = arith.addi %data, %data : tensor<5xi32>
  %r = gather.gather %twice, %indices axis 0 batch_dims 0 bounds zero : tensor<5xi32>, tensor<3xi64> -> tensor<3xi32>
  func.return %r : tensor<3xi32>
}

// -----

// expected-error@unknown {{gather.byte_strides has 1 strides for tensor<4x5x2xi16>; give one a dimension}}
func.func @few(%data: tensor<4x5x2xi16> {gather.byte_strides = array<i64: 20>}, %indices: tensor<3xi64>) -> tensor<3x5x2xi16> {
  %r = gather.gather %data, %indices axis 0 batch_dims 0 bounds zero : tensor<4x5x2xi16>, tensor<3xi64> -> tensor<3x5x2xi16>
  func.return %r : tensor<3x5x2xi16>
}
