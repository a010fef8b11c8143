// RUN: gathernest-opt %s -p check-constant-indices

// CHECK-LABEL: @error
// CHECK: [[I:%.*]] = arith.constant dense<[0, 4]> : tensor<2xi64>
// CHECK: gather.gather %x, [[I]] axis 0 batch_dims 0 bounds unchecked version "onnx.Gather-13"
func.func @error(%x: tensor<5x4xf32>) -> tensor<2x4xf32> {
  %i = arith.constant dense<[0, -1]> : tensor<2xi64>
  %r = gather.gather %x, %i axis 0 batch_dims 0 bounds error version "onnx.Gather-13" : tensor<5x4xf32>, tensor<2xi64> -> tensor<2x4xf32>
  func.return %r : tensor<2x4xf32>
}

// A position that the index type cannot hold gets a wider one.
// CHECK-LABEL: @wider
// CHECK: arith.constant dense<[299, 1]> : tensor<2xi64>
func.func @wider(%x: tensor<300xf32>) -> tensor<2xf32> {
  %i = arith.constant dense<[-1, 1]> : tensor<2xi8>
  %r = gather.gather %x, %i axis 0 batch_dims 0 bounds error : tensor<300xf32>, tensor<2xi8> -> tensor<2xf32>
  func.return %r : tensor<2xf32>
}

// CHECK-LABEL: @clip_and_wrap
// CHECK-DAG: arith.constant dense<[0, 4]> : tensor<2xi64>
// CHECK-DAG: arith.constant dense<[3, 2]> : tensor<2xi64>
// CHECK-NOT: bounds {{clip|wrap}}
func.func @clip_and_wrap(%x: tensor<5xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
  %i = arith.constant dense<[-7, 7]> : tensor<2xi64>
  %c = gather.gather %x, %i axis 0 batch_dims 0 bounds clip : tensor<5xf32>, tensor<2xi64> -> tensor<2xf32>
  %w = gather.gather %x, %i axis 0 batch_dims 0 bounds wrap : tensor<5xf32>, tensor<2xi64> -> tensor<2xf32>
  func.return %c, %w : tensor<2xf32>, tensor<2xf32>
}

// CHECK-LABEL: @tuples
// CHECK: arith.constant dense<{{\[\[}}1, 0], [0, 2]]> : tensor<2x2xi64>
func.func @tuples(%x: tensor<2x3xf32>) -> tensor<2xf32> {
  %i = arith.constant dense<[[-1, 0], [-2, -1]]> : tensor<2x2xi64>
  %r = gather.gather_nd %x, %i batch_dims 0 bounds error : tensor<2x3xf32>, tensor<2x2xi64> -> tensor<2xf32>
  func.return %r : tensor<2xf32>
}

// CHECK-LABEL: @elements
// CHECK: gather.gather_elements %x, %i axis 1 bounds unchecked
func.func @elements(%x: tensor<2x3xf32>) -> tensor<1x2xf32> {
  %i = arith.constant dense<[[0, 2]]> : tensor<1x2xi64>
  %r = gather.gather_elements %x, %i axis 1 bounds error : tensor<2x3xf32>, tensor<1x2xi64> -> tensor<1x2xf32>
  func.return %r : tensor<1x2xf32>
}

// CHECK-LABEL: @left_alone
// CHECK: bounds zero
// CHECK: bounds error
func.func @left_alone(%x: tensor<5xf32>, %y: tensor<?xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
  %i = arith.constant dense<[0, 5]> : tensor<2xi64>
  %z = gather.gather %x, %i axis 0 batch_dims 0 bounds zero : tensor<5xf32>, tensor<2xi64> -> tensor<2xf32>
  %d = gather.gather %y, %i axis 0 batch_dims 0 bounds error : tensor<?xf32>, tensor<2xi64> -> tensor<2xf32>
  func.return %z, %d : tensor<2xf32>, tensor<2xf32>
}

// Gradients are no part of a model.
// CHECK-LABEL: @gradient
// CHECK: gather.gather_grad %g, %i axis 0 batch_dims 0 bounds error
func.func @gradient(%g: tensor<2xf32>) -> tensor<5xf32> {
  %i = arith.constant dense<[0, -1]> : tensor<2xi64>
  %r = gather.gather_grad %g, %i axis 0 batch_dims 0 bounds error : tensor<2xf32>, tensor<2xi64> -> tensor<5xf32>
  func.return %r : tensor<5xf32>
}
