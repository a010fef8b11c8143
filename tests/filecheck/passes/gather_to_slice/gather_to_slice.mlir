// RUN: gathernest-opt %s -p gather-to-slice,dce

// CHECK-LABEL: @every_second
// CHECK-NEXT: tensor.extract_slice %x[0, 0] [3, 4] [2, 1] {gather.node = "n"} : tensor<5x4xf32> to tensor<3x4xf32>
// CHECK-NEXT: func.return
func.func @every_second(%x: tensor<5x4xf32>) -> tensor<3x4xf32> {
  %i = arith.constant dense<[0, 2, 4]> : tensor<3xi64>
  %r = gather.gather %x, %i axis 0 batch_dims 0 bounds unchecked {gather.node = "n"} : tensor<5x4xf32>, tensor<3xi64> -> tensor<3x4xf32>
  func.return %r : tensor<3x4xf32>
}

// CHECK-LABEL: @one_index_drops_its_axis
// CHECK-NEXT: tensor.extract_slice %x[0, 2] [2, 1] [1, 1] : tensor<2x5xf32> to tensor<2xf32>
func.func @one_index_drops_its_axis(%x: tensor<2x5xf32>) -> tensor<2xf32> {
  %i = arith.constant dense<2> : tensor<i64>
  %r = gather.gather %x, %i axis -1 batch_dims 0 bounds unchecked : tensor<2x5xf32>, tensor<i64> -> tensor<2xf32>
  func.return %r : tensor<2xf32>
}

// CHECK-LABEL: @everything_in_order_is_data_itself
// CHECK-NEXT: func.return %x
func.func @everything_in_order_is_data_itself(%x: tensor<3xf32>) -> tensor<3xf32> {
  %i = arith.constant dense<[0, 1, 2]> : tensor<3xi64>
  %r = gather.gather %x, %i axis 0 batch_dims 0 bounds unchecked : tensor<3xf32>, tensor<3xi64> -> tensor<3xf32>
  func.return %r : tensor<3xf32>
}

// Indices that repeat, fall, are no run or have two dimensions stay, and so does a table of an unknown size.
// CHECK-LABEL: @left_alone
// CHECK-COUNT-5: gather.gather
func.func @left_alone(%x: tensor<5xf32>, %y: tensor<?xf32>) -> (tensor<3xf32>, tensor<2xf32>, tensor<2x2xf32>, tensor<2xf32>, tensor<2xf32>) {
  %i = arith.constant dense<[0, 1, 3]> : tensor<3xi64>
  %j = arith.constant dense<[1, 1]> : tensor<2xi64>
  %k = arith.constant dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>
  %l = arith.constant dense<[0, 1]> : tensor<2xi64>
  %m = arith.constant dense<[4, 2]> : tensor<2xi64>
  %a = gather.gather %x, %i axis 0 batch_dims 0 bounds unchecked : tensor<5xf32>, tensor<3xi64> -> tensor<3xf32>
  %b = gather.gather %x, %j axis 0 batch_dims 0 bounds unchecked : tensor<5xf32>, tensor<2xi64> -> tensor<2xf32>
  %c = gather.gather %x, %k axis 0 batch_dims 0 bounds unchecked : tensor<5xf32>, tensor<2x2xi64> -> tensor<2x2xf32>
  %d = gather.gather %y, %l axis 0 batch_dims 0 bounds error : tensor<?xf32>, tensor<2xi64> -> tensor<2xf32>
  %e = gather.gather %x, %m axis 0 batch_dims 0 bounds unchecked : tensor<5xf32>, tensor<2xi64> -> tensor<2xf32>
  func.return %a, %b, %c, %d, %e : tensor<3xf32>, tensor<2xf32>, tensor<2x2xf32>, tensor<2xf32>, tensor<2xf32>
}
