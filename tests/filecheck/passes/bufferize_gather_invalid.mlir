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

// expected-error@unknown {{elements of a strided array are f16; run erase-element-type first}}
func.func @float(%data: tensor<5xf16> {gather.byte_strides = array<i64: 8>}, %indices: tensor<3xi64>) -> tensor<3xf16> {
  %r = gather.gather %data, %indices axis 0 batch_dims 0 bounds zero : tensor<5xf16>, tensor<3xi64> -> tensor<3xf16>
  func.return %r : tensor<3xf16>
}
