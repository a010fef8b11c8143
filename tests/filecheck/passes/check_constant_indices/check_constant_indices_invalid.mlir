// RUN: gathernest-opt %s -p check-constant-indices --verify-diagnostics --split-input-file

// expected-error@unknown {{node 'pick': index 5 at position (1,) of its constant indices is out of range [-5, 4] for axis 0 of size 5}}
func.func @f(%x: tensor<5xf32>) -> tensor<2xf32> {
  %i = arith.constant dense<[0, 5]> : tensor<2xi64>
  %r = gather.gather %x, %i axis 0 batch_dims 0 bounds error {gather.node = "pick"} : tensor<5xf32>, tensor<2xi64> -> tensor<2xf32>
  func.return %r : tensor<2xf32>
}

// -----

// expected-error@unknown {{gather.gather_nd: index -4 at position (0, 1) of its constant indices is out of range [-3, 2] for axis 1 of size 3}}
func.func @f(%x: tensor<2x3xf32>) -> tensor<1xf32> {
  %i = arith.constant dense<[[0, -4]]> : tensor<1x2xi64>
  %r = gather.gather_nd %x, %i batch_dims 0 bounds error : tensor<2x3xf32>, tensor<1x2xi64> -> tensor<1xf32>
  func.return %r : tensor<1xf32>
}

// -----

// expected-error@unknown {{index -1 at position (0,) of its constant indices is out of range [0, 4]}}
func.func @f(%x: tensor<5xf32>) -> tensor<1xf32> {
  %i = arith.constant dense<-1> : tensor<1xi64>
  %r = gather.gather %x, %i axis 0 batch_dims 0 bounds error version "openvino.Gather-7" : tensor<5xf32>, tensor<1xi64> -> tensor<1xf32>
  func.return %r : tensor<1xf32>
}

// -----

// expected-error@unknown {{axis 0 of data has size 0, so none of its indices is valid}}
func.func @f(%x: tensor<0xf32>) -> tensor<1xf32> {
  %i = arith.constant dense<0> : tensor<1xi64>
  %r = gather.gather %x, %i axis 0 batch_dims 0 bounds clip : tensor<0xf32>, tensor<1xi64> -> tensor<1xf32>
  func.return %r : tensor<1xf32>
}
