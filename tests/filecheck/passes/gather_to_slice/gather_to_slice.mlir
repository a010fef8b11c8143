// RUN: gathernest-opt %s -p gather-to-slice,dce

// CHECK-LABEL: @backwards
// CHECK-NEXT: graph.slice %x axis 0 start 4 step -2 count 3 {gather.node = "n"} : tensor<5x?xf32> -> tensor<3x?xf32>
// CHECK-NEXT: func.return
func.func @backwards(%x: tensor<5x?xf32>) -> tensor<3x?xf32> {
  %i = arith.constant dense<[4, 2, 0]> : tensor<3xi64>
  %r = gather.gather %x, %i axis 0 batch_dims 0 bounds unchecked {gather.node = "n"} : tensor<5x?xf32>, tensor<3xi64> -> tensor<3x?xf32>
  func.return %r : tensor<3x?xf32>
}

// CHECK-LABEL: @one_index_drops_its_axis
// CHECK-NEXT: [[S:%.*]] = graph.slice %x axis 1 start 2 step 1 count 1 : tensor<2x5xf32> -> tensor<2x1xf32>
// CHECK-NEXT: graph.squeeze [[S]] axes [1] : tensor<2x1xf32> -> tensor<2xf32>
func.func @one_index_drops_its_axis(%x: tensor<2x5xf32>) -> tensor<2xf32> {
  %i = arith.constant dense<2> : tensor<i64>
  %r = gather.gather %x, %i axis -1 batch_dims 0 bounds unchecked : tensor<2x5xf32>, tensor<i64> -> tensor<2xf32>
  func.return %r : tensor<2xf32>
}

// CHECK-LABEL: @sizes_of_1_beside_the_run
// CHECK-NEXT: [[S:%.*]] = graph.slice %x axis 1 start 1 step 2 count 2 : tensor<2x5xf32> -> tensor<2x2xf32>
// CHECK-NEXT: graph.unsqueeze [[S]] axes [1, 3] : tensor<2x2xf32> -> tensor<2x1x2x1xf32>
func.func @sizes_of_1_beside_the_run(%x: tensor<2x5xf32>) -> tensor<2x1x2x1xf32> {
  %i = arith.constant dense<[[[1], [3]]]> : tensor<1x2x1xi64>
  %r = gather.gather %x, %i axis 1 batch_dims 0 bounds unchecked : tensor<2x5xf32>, tensor<1x2x1xi64> -> tensor<2x1x2x1xf32>
  func.return %r : tensor<2x1x2x1xf32>
}

// CHECK-LABEL: @everything_in_order_is_data_itself
// CHECK-NEXT: func.return %x
func.func @everything_in_order_is_data_itself(%x: tensor<3xf32>) -> tensor<3xf32> {
  %i = arith.constant dense<[0, 1, 2]> : tensor<3xi64>
  %r = gather.gather %x, %i axis 0 batch_dims 0 bounds unchecked : tensor<3xf32>, tensor<3xi64> -> tensor<3xf32>
  func.return %r : tensor<3xf32>
}

// CHECK-LABEL: @left_alone
// CHECK-COUNT-4: gather.gather
func.func @left_alone(%x: tensor<5xf32>, %y: tensor<?xf32>) -> (tensor<3xf32>, tensor<2xf32>, tensor<2x2xf32>, tensor<2xf32>) {
  %i = arith.constant dense<[0, 1, 3]> : tensor<3xi64>
  %j = arith.constant dense<[1, 1]> : tensor<2xi64>
  %k = arith.constant dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>
  %l = arith.constant dense<[0, 1]> : tensor<2xi64>
  %a = gather.gather %x, %i axis 0 batch_dims 0 bounds unchecked : tensor<5xf32>, tensor<3xi64> -> tensor<3xf32>
  %b = gather.gather %x, %j axis 0 batch_dims 0 bounds unchecked : tensor<5xf32>, tensor<2xi64> -> tensor<2xf32>
  %c = gather.gather %x, %k axis 0 batch_dims 0 bounds unchecked : tensor<5xf32>, tensor<2x2xi64> -> tensor<2x2xf32>
  %d = gather.gather %y, %l axis 0 batch_dims 0 bounds error : tensor<?xf32>, tensor<2xi64> -> tensor<2xf32>
  func.return %a, %b, %c, %d : tensor<3xf32>, tensor<2xf32>, tensor<2x2xf32>, tensor<2xf32>
}
