// RUN: gathernest-opt %s -p erase-element-type

// CHECK-LABEL: func.func @float
// CHECK-SAME: %data: tensor<5xi32>, %indices: tensor<3xi8>) -> tensor<3xi32>
// CHECK: bounds zero unsigned : tensor<5xi32>, tensor<3xi8> -> tensor<3xi32>
func.func @float(%data: tensor<5xf32>, %indices: tensor<3xui8>) -> tensor<3xf32> {
  %r = gather.gather %data, %indices axis 0 batch_dims 0 bounds zero : tensor<5xf32>, tensor<3xui8> -> tensor<3xf32>
  func.return %r : tensor<3xf32>
}

// Ten bytes are five of two.
// CHECK-LABEL: func.func @string
// CHECK-SAME: tensor<4x5xi16>
func.func @string(%data: tensor<4x!gather.bytes<10, "|S10">>, %indices: tensor<3xi64>) -> tensor<3x!gather.bytes<10, "|S10">> {
  %r = gather.gather %data, %indices axis -1 batch_dims 0 bounds error : tensor<4x!gather.bytes<10, "|S10">>, tensor<3xi64> -> tensor<3x!gather.bytes<10, "|S10">>
  func.return %r : tensor<3x!gather.bytes<10, "|S10">>
}

// A stride of 7 bytes leaves units of one.
// CHECK-LABEL: func.func @unaligned
// CHECK-SAME: tensor<5x4xi8>
func.func @unaligned(%data: tensor<5xf32> {gather.byte_strides = array<i64: 7>}, %indices: tensor<3xi64>) -> tensor<3xf32> {
  %r = gather.gather %data, %indices axis 0 batch_dims 0 bounds error : tensor<5xf32>, tensor<3xi64> -> tensor<3xf32>
  func.return %r : tensor<3xf32>
}

// So does one of the result.
// CHECK-LABEL: func.func @unaligned_result
// CHECK-SAME: %data: tensor<5x4xi8>
func.func @unaligned_result(%data: tensor<5xf32>, %indices: tensor<3xi64>) -> (tensor<3xf32> {gather.byte_strides = array<i64: 7>}) {
  %r = gather.gather %data, %indices axis 0 batch_dims 0 bounds error : tensor<5xf32>, tensor<3xi64> -> tensor<3xf32>
  func.return %r : tensor<3xf32>
}

// The strides of a memref are in its elements: those of ten bytes become five times as many of two.
// CHECK-LABEL: func.func @memrefs
// CHECK-SAME: %data: memref<4x5xi16, strided<[15, 1]>>
// CHECK-SAME: %out: memref<3x5xi16>
func.func @memrefs(%data: memref<4x!gather.bytes<10, "|S10">, strided<[3]>>, %indices: memref<3xi64>, %out: memref<3x!gather.bytes<10, "|S10">>) {
  gather.gather %data, %indices into %out axis 0 batch_dims 0 bounds error : memref<4x!gather.bytes<10, "|S10">, strided<[3]>>, memref<3xi64>, memref<3x!gather.bytes<10, "|S10">>
  func.return
}
