// RUN: gathernest-opt %s -p bufferize-gather

// CHECK-LABEL: func.func @gather
// CHECK-SAME: %data: memref<5x4xi32, strided<[-4, 1]>>, %indices: memref<3xi64>, %out: memref<3x4xi32>) {
// CHECK-NEXT: gather.gather %data, %indices into %out axis 0
// CHECK-NEXT: func.return
func.func @gather(%data: tensor<5x4xi32> {gather.byte_strides = array<i64: -16, 4>}, %indices: tensor<3xi64>) -> tensor<3x4xi32> {
  %r = gather.gather %data, %indices axis 0 batch_dims 0 bounds zero : tensor<5x4xi32>, tensor<3xi64> -> tensor<3x4xi32>
  func.return %r : tensor<3x4xi32>
}

// CHECK: func.func @constant(%data: memref<5xi32>, %out: memref<2xi32>)
// CHECK: memref.get_global @constant_indices : memref<2xi64>
func.func @constant(%data: tensor<5xi32>) -> tensor<2xi32> {
  %indices = arith.constant dense<[1, -1]> : tensor<2xi64>
  %r = gather.gather %data, %indices axis 0 batch_dims 0 bounds error : tensor<5xi32>, tensor<2xi64> -> tensor<2xi32>
  func.return %r : tensor<2xi32>
}

// An element of five units: their stride is one unit, whatever those of the elements are.
// CHECK: func.func @units(%data: memref<4x5xi16, strided<[10, 1]>>
func.func @units(%data: tensor<4x5xi16> {gather.byte_strides = array<i64: 20>}, %indices: tensor<3xi64>) -> tensor<3x5xi16> {
  %r = gather.gather %data, %indices axis 0 batch_dims 0 bounds zero : tensor<4x5xi16>, tensor<3xi64> -> tensor<3x5xi16>
  func.return %r : tensor<3x5xi16>
}

// A constant that something else uses stays.
// CHECK: func.func @used_twice
// CHECK-NEXT: %[[KEPT:.*]] = arith.constant dense<[1, -1]> : tensor<2xi64>
// CHECK-NEXT: arith.addi %[[KEPT]], %[[KEPT]]
func.func @used_twice(%data: tensor<5xi32>) -> tensor<2xi32> {
  %indices = arith.constant dense<[1, -1]> : tensor<2xi64>
  %twice = arith.addi %indices, %indices : tensor<2xi64>
  %r = gather.gather %data, %indices axis 0 batch_dims 0 bounds error : tensor<5xi32>, tensor<2xi64> -> tensor<2xi32>
  func.return %r : tensor<2xi32>
}
