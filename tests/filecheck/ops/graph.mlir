// RUN: gathernest-opt %s --split-input-file

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

// -----

// CHECK: func.func @computes(%x: tensor<?x4xf32>, %i: tensor<?xi64>, %n: tensor<i64>, %s: tensor<2xi64>, %o: tensor<1xi64>)
// CHECK-NEXT: %a = graph.elementwise %x, %x function "add" : tensor<?x4xf32>, tensor<?x4xf32> -> tensor<?x4xf32>
// CHECK-NEXT: %m = graph.elementwise %i, %n function "less" : tensor<?xi64>, tensor<i64> -> tensor<?xi1>
// CHECK-NEXT: %z = graph.elementwise %m, %i, %n function "select" : tensor<?xi1>, tensor<?xi64>, tensor<i64> -> tensor<?xi64>
// CHECK-NEXT: %p = graph.reduce %s function "product" axes [0] : tensor<2xi64> -> tensor<i64>
// CHECK-NEXT: %k = graph.reduce %x function "maximum" axes [1] keep : tensor<?x4xf32> -> tensor<?x1xf32>
// CHECK-NEXT: %c = graph.cumsum %i axis 0 exclusive reverse : tensor<?xi64> -> tensor<?xi64>
// CHECK-NEXT: %r = graph.range %n, %p, %n : tensor<i64>, tensor<i64>, tensor<i64> -> tensor<?xi64>
// CHECK-NEXT: %t = graph.transpose %x order [1, 0] : tensor<?x4xf32> -> tensor<4x?xf32>
// CHECK-NEXT: %b = graph.broadcast %n, %s : tensor<i64>, tensor<2xi64> -> tensor<?x?xi64>
// CHECK-NEXT: %e = graph.broadcast %x, %s both : tensor<?x4xf32>, tensor<2xi64> -> tensor<?x4xf32>
// CHECK-NEXT: %l = graph.strided_slice %x, %s, %s, %s axes [1, 0] : tensor<?x4xf32>, tensor<2xi64>, tensor<2xi64>, tensor<2xi64> -> tensor<?x?xf32>
// CHECK-NEXT: %d = graph.pad %i, %o, %o, %n mode "constant" axes [0] : tensor<?xi64>, tensor<1xi64>, tensor<1xi64>, tensor<i64> -> tensor<?xi64>
// CHECK-NEXT: %g = graph.bags %x, %z reduce "mean" bounds "zero" group 4 : tensor<?x4xf32>, tensor<?xi64> -> tensor<4xf32>
// CHECK-NEXT: %h = graph.bags %x, %i, %s, %s reduce "max" bounds "natural" group 1 : tensor<?x4xf32>, tensor<?xi64>, tensor<2xi64>, tensor<2xi64> -> tensor<2x4xf32>
// CHECK-NEXT: %v = graph.count_less %i, %s : tensor<?xi64>, tensor<2xi64> -> tensor<2xi64>
func.func @computes(%x: tensor<?x4xf32>, %i: tensor<?xi64>, %n: tensor<i64>, %s: tensor<2xi64>, %o: tensor<1xi64>) {
  %a = graph.elementwise %x, %x function "add" : tensor<?x4xf32>, tensor<?x4xf32> -> tensor<?x4xf32>
  %m = graph.elementwise %i, %n function "less" : tensor<?xi64>, tensor<i64> -> tensor<?xi1>
  %z = graph.elementwise %m, %i, %n function "select" : tensor<?xi1>, tensor<?xi64>, tensor<i64> -> tensor<?xi64>
  %p = graph.reduce %s function "product" axes [0] : tensor<2xi64> -> tensor<i64>
  %k = graph.reduce %x function "maximum" axes [1] keep : tensor<?x4xf32> -> tensor<?x1xf32>
  %c = graph.cumsum %i axis 0 exclusive reverse : tensor<?xi64> -> tensor<?xi64>
  %r = graph.range %n, %p, %n : tensor<i64>, tensor<i64>, tensor<i64> -> tensor<?xi64>
  %t = graph.transpose %x order [1, 0] : tensor<?x4xf32> -> tensor<4x?xf32>
  %b = graph.broadcast %n, %s : tensor<i64>, tensor<2xi64> -> tensor<?x?xi64>
  %e = graph.broadcast %x, %s both : tensor<?x4xf32>, tensor<2xi64> -> tensor<?x4xf32>
  %l = graph.strided_slice %x, %s, %s, %s axes [1, 0] : tensor<?x4xf32>, tensor<2xi64>, tensor<2xi64>, tensor<2xi64> -> tensor<?x?xf32>
  %d = graph.pad %i, %o, %o, %n mode "constant" axes [0] : tensor<?xi64>, tensor<1xi64>, tensor<1xi64>, tensor<i64> -> tensor<?xi64>
  %g = graph.bags %x, %z reduce "mean" bounds "zero" group 4 : tensor<?x4xf32>, tensor<?xi64> -> tensor<4xf32>
  %h = graph.bags %x, %i, %s, %s reduce "max" bounds "natural" group 1 : tensor<?x4xf32>, tensor<?xi64>, tensor<2xi64>, tensor<2xi64> -> tensor<2x4xf32>
  %v = graph.count_less %i, %s : tensor<?xi64>, tensor<2xi64> -> tensor<2xi64>
  func.return
}
