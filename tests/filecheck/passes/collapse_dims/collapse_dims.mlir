// RUN: gathernest-opt %s -p collapse-dims

// CHECK-LABEL: func.func @merged
// CHECK-SAME: %data: memref<1x2x5x12xi32> {gather.view = #gather.view<batch[], outer[0], axis[1], inner[2, 3]>}
// CHECK-SAME: %indices: memref<1x42xi64> {gather.view = #gather.view<batch[], indices[0, 1]>}
// CHECK-SAME: %out: memref<1x2x42x12xi32>
// CHECK: axis 2 batch_dims 1 bounds error
func.func @merged(%data: memref<2x5x3x4xi32>, %indices: memref<6x7xi64>, %out: memref<2x6x7x3x4xi32>) {
  gather.gather %data, %indices into %out axis 1 batch_dims 0 bounds error : memref<2x5x3x4xi32>, memref<6x7xi64>, memref<2x6x7x3x4xi32>
  func.return
}

// Rows that are not next to each other stay two dimensions.
// CHECK-LABEL: func.func @strided
// CHECK-SAME: memref<1x1x5x3x4xi32, strided<[1, 1, 24, 8, 1]>> {gather.view = #gather.view<batch[], outer[], axis[0], inner_0[1], inner_1[2]>}
func.func @strided(%data: memref<5x3x4xi32, strided<[24, 8, 1]>>, %indices: memref<6xi64>, %out: memref<6x3x4xi32>) {
  gather.gather %data, %indices into %out axis 0 batch_dims 0 bounds error : memref<5x3x4xi32, strided<[24, 8, 1]>>, memref<6xi64>, memref<6x3x4xi32>
  func.return
}

// A tuple keeps its length, and each of its axes.
// CHECK-LABEL: func.func @tuples
// CHECK-SAME: #gather.view<batch[0], axis_0[1], axis_1[2], inner[3]>
// CHECK-SAME: #gather.view<batch[0], indices[1], tuple[2]>
func.func @tuples(%data: memref<2x5x3x4xi32>, %indices: memref<2x6x2xi64>, %out: memref<2x6x4xi32>) {
  gather.gather_nd %data, %indices into %out batch_dims 1 bounds error : memref<2x5x3x4xi32>, memref<2x6x2xi64>, memref<2x6x4xi32>
  func.return
}
