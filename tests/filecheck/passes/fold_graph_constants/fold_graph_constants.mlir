// RUN: gathernest-opt %s -p fold-graph-constants

// CHECK-LABEL: @static_sizes
// CHECK: [[C:%.*]] = arith.constant dense<[-1, 4, 5]> : tensor<3xi64>
// CHECK: graph.reshape %x, [[C]]
func.func @static_sizes(%x: tensor<?x4x5xf32>) -> tensor<?x4x5xf32> {
  %s = graph.shape_of %x start 1 end 3 : tensor<?x4x5xf32> -> tensor<2xi64>
  %r = arith.constant dense<-1> : tensor<1xi64>
  %c = graph.concat %r, %s axis 0 : tensor<1xi64>, tensor<2xi64> -> tensor<3xi64>
  %y = graph.reshape %x, %c : tensor<?x4x5xf32>, tensor<3xi64> -> tensor<?x4x5xf32>
  func.return %y : tensor<?x4x5xf32>
}

// The size that is gathered is known, although another of the same vector is not.
// CHECK-LABEL: @size_picked_by_a_gather
// CHECK: [[S:%.*]] = arith.constant dense<4> : tensor<i32>
// CHECK: func.return [[S]]
func.func @size_picked_by_a_gather(%x: tensor<?x4xf32>) -> tensor<i32> {
  %s = graph.shape_of %x start 0 end 2 : tensor<?x4xf32> -> tensor<2xi64>
  %i = arith.constant dense<-1> : tensor<i64>
  %g = gather.gather %s, %i axis 0 batch_dims 0 bounds error : tensor<2xi64>, tensor<i64> -> tensor<i64>
  %c = graph.cast %g : tensor<i64> -> tensor<i32>
  func.return %c : tensor<i32>
}

// CHECK-LABEL: @dynamic_sizes
// CHECK: graph.shape_of %x start 0 end 1
func.func @dynamic_sizes(%x: tensor<?x4xf32>) -> tensor<1xi64> {
  %s = graph.shape_of %x start 0 end 1 : tensor<?x4xf32> -> tensor<1xi64>
  func.return %s : tensor<1xi64>
}

// The type says more than the sizes that are known.
// CHECK-LABEL: @sizes_of_sizes
// CHECK: graph.reshape
func.func @sizes_of_sizes(%x: tensor<?x5xf32>, %y: tensor<?x1xf32>) -> tensor<2x1xi64> {
  %s = graph.shape_of %x start 0 end 2 : tensor<?x5xf32> -> tensor<2xi64>
  %t = graph.shape_of %y start 0 end 2 : tensor<?x1xf32> -> tensor<2xi64>
  %r = graph.reshape %s, %t : tensor<2xi64>, tensor<2xi64> -> tensor<2x1xi64>
  func.return %r : tensor<2x1xi64>
}
