// RUN: gathernest-opt %s -p fold-graph-constants --verify-diagnostics --split-input-file

// expected-error@unknown {{node 'flat': sizes [5] do not fit the 2 elements of shape (2,)}}
func.func @f() -> tensor<?xi64> {
  %x = arith.constant dense<[1, 2]> : tensor<2xi64>
  %s = arith.constant dense<5> : tensor<1xi64>
  %y = graph.reshape %x, %s {gather.node = "flat"} : tensor<2xi64>, tensor<1xi64> -> tensor<5xi64>
  %z = graph.concat %y axis 0 : tensor<5xi64> -> tensor<?xi64>
  func.return %z : tensor<?xi64>
}
