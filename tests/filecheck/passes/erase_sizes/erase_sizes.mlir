// RUN: gathernest-opt %s -p nest,erase-sizes --split-input-file

// Sizes of 1 stay, but for the axis; so does the contiguous layout.
// CHECK: %data: memref<1x?x?x?xi32>
// CHECK-SAME: %indices: memref<1x?xi64>
// CHECK-SAME: %out: memref<1x?x?x?xi32>
func.func @gather(%data: tensor<2x5x4xf32>, %indices: tensor<3xi64>) -> tensor<2x3x4xf32> {
  %r = gather.gather %data, %indices axis 1 batch_dims 0 bounds clip : tensor<2x5x4xf32>, tensor<3xi64> -> tensor<2x3x4xf32>
  func.return %r : tensor<2x3x4xf32>
}

// -----

// CHECK: %data: memref<1x1x?x?xi32, strided<[1, 1, 1, ?]>>
func.func @gather(%data: tensor<1x4xf32> {gather.byte_strides = array<i64: 64, 8>}, %indices: tensor<3xi64>) -> tensor<3x4xf32> {
  %r = gather.gather %data, %indices axis 0 batch_dims 0 bounds clip : tensor<1x4xf32>, tensor<3xi64> -> tensor<3x4xf32>
  func.return %r : tensor<3x4xf32>
}
