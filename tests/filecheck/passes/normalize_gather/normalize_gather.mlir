// RUN: gathernest-opt %s -p normalize-gather

// CHECK-LABEL: func.func @negative
// CHECK: axis 1 batch_dims 1 bounds error
func.func @negative(%data: tensor<2x5xf32>, %indices: tensor<2x3xi64>) -> tensor<2x3xf32> {
  %r = gather.gather %data, %indices axis -1 batch_dims -1 bounds error : tensor<2x5xf32>, tensor<2x3xi64> -> tensor<2x3xf32>
  func.return %r : tensor<2x3xf32>
}

// CHECK-LABEL: func.func @already
// CHECK: axis 0 batch_dims 0 bounds zero version "openvino.Gather-8"
func.func @already(%data: tensor<5xf32>, %indices: tensor<3xi64>) -> tensor<3xf32> {
  %r = gather.gather %data, %indices axis 0 batch_dims 0 bounds zero version "openvino.Gather-8" : tensor<5xf32>, tensor<3xi64> -> tensor<3xf32>
  func.return %r : tensor<3xf32>
}

// CHECK-LABEL: func.func @elements
// CHECK: gather.gather_elements %data, %indices axis 1 bounds clip
func.func @elements(%data: tensor<2x5xf32>, %indices: tensor<2x3xi64>) -> tensor<2x3xf32> {
  %r = gather.gather_elements %data, %indices axis -1 bounds clip : tensor<2x5xf32>, tensor<2x3xi64> -> tensor<2x3xf32>
  func.return %r : tensor<2x3xf32>
}
