// RUN: gathernest-opt %s -p compose-gathers,dce

// CHECK-LABEL: @rows_of_rows
// CHECK-NEXT: [[K:%.*]] = arith.constant dense<2> : tensor<2xi64>
// CHECK-NEXT: gather.gather %x, [[K]] axis 0 batch_dims 0 bounds unchecked {gather.node = "outer"} : tensor<5x4xf32>, tensor<2xi64> -> tensor<2x4xf32>
// CHECK-NEXT: func.return
func.func @rows_of_rows(%x: tensor<5x4xf32>) -> tensor<2x4xf32> {
  %i = arith.constant dense<[4, 2, 0]> : tensor<3xi64>
  %j = arith.constant dense<[1, 1]> : tensor<2xi64>
  %t = gather.gather %x, %i axis 0 batch_dims 0 bounds unchecked : tensor<5x4xf32>, tensor<3xi64> -> tensor<3x4xf32>
  %r = gather.gather %t, %j axis 0 batch_dims 0 bounds unchecked {gather.node = "outer"} : tensor<3x4xf32>, tensor<2xi64> -> tensor<2x4xf32>
  func.return %r : tensor<2x4xf32>
}

// The second dimension of a matrix of indices.
// CHECK-LABEL: @column_of_indices
// CHECK: arith.constant dense<[2, 0]> : tensor<2xi64>
// CHECK-NEXT: gather.gather %x, {{.*}} axis 1 batch_dims 0 bounds unchecked : tensor<4x5xf32>, tensor<2xi64> -> tensor<4x2xf32>
func.func @column_of_indices(%x: tensor<4x5xf32>) -> tensor<4x2xf32> {
  %i = arith.constant dense<[[4, 2, 1], [3, 0, 1]]> : tensor<2x3xi64>
  %j = arith.constant dense<1> : tensor<i64>
  %t = gather.gather %x, %i axis 1 batch_dims 0 bounds unchecked : tensor<4x5xf32>, tensor<2x3xi64> -> tensor<4x2x3xf32>
  %r = gather.gather %t, %j axis -1 batch_dims 0 bounds unchecked : tensor<4x2x3xf32>, tensor<i64> -> tensor<4x2xf32>
  func.return %r : tensor<4x2xf32>
}

// CHECK-LABEL: @three_in_a_row
// CHECK-COUNT-1: gather.gather
// CHECK-NOT: gather.gather
func.func @three_in_a_row(%x: tensor<5xf32>) -> tensor<1xf32> {
  %i = arith.constant dense<[4, 2, 0]> : tensor<3xi64>
  %j = arith.constant dense<[2, 1]> : tensor<2xi64>
  %k = arith.constant dense<1> : tensor<1xi64>
  %s = gather.gather %x, %i axis 0 batch_dims 0 bounds unchecked : tensor<5xf32>, tensor<3xi64> -> tensor<3xf32>
  %t = gather.gather %s, %j axis 0 batch_dims 0 bounds unchecked : tensor<3xf32>, tensor<2xi64> -> tensor<2xf32>
  %r = gather.gather %t, %k axis 0 batch_dims 0 bounds unchecked : tensor<2xf32>, tensor<1xi64> -> tensor<1xf32>
  func.return %r : tensor<1xf32>
}

// An inner gather that may fail, one that is used twice, and one along another dimension stay.
// CHECK-LABEL: @left_alone
// CHECK-COUNT-5: gather.gather
func.func @left_alone(%x: tensor<5x4xf32>) -> (tensor<1x4xf32>, tensor<1x4xf32>, tensor<3x1xf32>, tensor<3x4xf32>) {
  %i = arith.constant dense<[4, 2, 9]> : tensor<3xi64>
  %j = arith.constant dense<1> : tensor<1xi64>
  %a = gather.gather %x, %i axis 0 batch_dims 0 bounds error : tensor<5x4xf32>, tensor<3xi64> -> tensor<3x4xf32>
  %b = gather.gather %a, %j axis 0 batch_dims 0 bounds unchecked : tensor<3x4xf32>, tensor<1xi64> -> tensor<1x4xf32>
  %k = arith.constant dense<[4, 2, 0]> : tensor<3xi64>
  %c = gather.gather %x, %k axis 0 batch_dims 0 bounds unchecked : tensor<5x4xf32>, tensor<3xi64> -> tensor<3x4xf32>
  %d = gather.gather %c, %j axis 0 batch_dims 0 bounds unchecked : tensor<3x4xf32>, tensor<1xi64> -> tensor<1x4xf32>
  %e = gather.gather %c, %j axis 1 batch_dims 0 bounds unchecked : tensor<3x4xf32>, tensor<1xi64> -> tensor<3x1xf32>
  func.return %b, %d, %e, %c : tensor<1x4xf32>, tensor<1x4xf32>, tensor<3x1xf32>, tensor<3x4xf32>
}
