// RUN: gathernest-opt %s

// CHECK: func.func @main(%x: tensor<?x3xf32> {gather.name = "a b"}) -> (tensor<?x3xf32> {gather.name = "y", gather.dims = ["N", ""]}) {
// CHECK-NEXT: %w = graph.weight name "a \22b\\" {gather.node = "n"} : tensor<2x3xf32>
// CHECK-NEXT: %s = graph.shape_of %x start 0 end 2 : tensor<?x3xf32> -> tensor<2xi64>
// CHECK-NEXT: %t = graph.shape_of %x start 1 end 1 : tensor<?x3xf32> -> tensor<0xi32>
// CHECK-NEXT: %r = graph.reshape %x, %s : tensor<?x3xf32>, tensor<2xi64> -> tensor<?x3xf32>
// CHECK-NEXT: %z = graph.reshape %x, %s allow_zero {note} : tensor<?x3xf32>, tensor<2xi64> -> tensor<?x3xf32>
// CHECK-NEXT: %u = graph.unsqueeze %z axes [0, 2] : tensor<?x3xf32> -> tensor<1x?x1x3xf32>
// CHECK-NEXT: %q = graph.squeeze %u axes [0, 2] : tensor<1x?x1x3xf32> -> tensor<?x3xf32>
// CHECK-NEXT: %p = graph.squeeze %q axes [] : tensor<?x3xf32> -> tensor<?x3xf32>
// CHECK-NEXT: %c = graph.concat %p, %w, %w axis 0 : tensor<?x3xf32>, tensor<2x3xf32>, tensor<2x3xf32> -> tensor<?x3xf32>
// CHECK-NEXT: %l = graph.slice %w axis 1 start 2 step -1 count 2 : tensor<2x3xf32> -> tensor<2x2xf32>
// CHECK-NEXT: %k = graph.cast %l : tensor<2x2xf32> -> tensor<2x2xi64>
func.func @main(%x: tensor<?x3xf32> {gather.name = "a b"}) -> (tensor<?x3xf32> {gather.name = "y", gather.dims = ["N", ""]}) {
  %w = graph.weight name "a \22b\\" {gather.node = "n"} : tensor<2x3xf32>
  %s = graph.shape_of %x start 0 end 2 : tensor<?x3xf32> -> tensor<2xi64>
  %t = graph.shape_of %x start 1 end 1 : tensor<?x3xf32> -> tensor<0xi32>
  %r = graph.reshape %x, %s : tensor<?x3xf32>, tensor<2xi64> -> tensor<?x3xf32>
  %z = graph.reshape %x, %s allow_zero {note} : tensor<?x3xf32>, tensor<2xi64> -> tensor<?x3xf32>
  %u = graph.unsqueeze %z axes [0, 2] : tensor<?x3xf32> -> tensor<1x?x1x3xf32>
  %q = graph.squeeze %u axes [0, 2] : tensor<1x?x1x3xf32> -> tensor<?x3xf32>
  %p = graph.squeeze %q axes [] : tensor<?x3xf32> -> tensor<?x3xf32>
  %c = graph.concat %p, %w, %w axis 0 : tensor<?x3xf32>, tensor<2x3xf32>, tensor<2x3xf32> -> tensor<?x3xf32>
  %l = graph.slice %w axis 1 start 2 step -1 count 2 : tensor<2x3xf32> -> tensor<2x2xf32>
  %k = graph.cast %l : tensor<2x2xf32> -> tensor<2x2xi64>
  func.return %x : tensor<?x3xf32>
}
