// RUN: gathernest-opt %s --verify-diagnostics --split-input-file

// expected-error@unknown {{graph.weight: expected a result of static sizes, got tensor<?xf32>}}
func.func @f(%x: tensor<2x3xf32>, %y: tensor<4x3xf32>, %i: tensor<2xi64>, %d: tensor<?xf32>) {
  %r = graph.weight name "w" : tensor<?xf32>
  func.return
}

// -----

// expected-error@unknown {{graph.cast: expected a result of shape (2, 3), got (3, 2)}}
func.func @f(%x: tensor<2x3xf32>, %y: tensor<4x3xf32>, %i: tensor<2xi64>, %d: tensor<?xf32>) {
  %r = graph.cast %x : tensor<2x3xf32> -> tensor<3x2xf32>
  func.return
}

// -----

// expected-error@unknown {{graph.cast: elements of type f8E5M2 are not converted; bool, int8}}
func.func @f(%x: tensor<2x3xf32>, %y: tensor<4x3xf32>, %i: tensor<2xi64>, %d: tensor<?xf32>) {
  %r = graph.cast %x : tensor<2x3xf32> -> tensor<2x3xf8E5M2>
  func.return
}

// -----

// expected-error@unknown {{graph.shape_of: start 1 and end 3 are no range in [0, 2]}}
func.func @f(%x: tensor<2x3xf32>, %y: tensor<4x3xf32>, %i: tensor<2xi64>, %d: tensor<?xf32>) {
  %r = graph.shape_of %x start 1 end 3 : tensor<2x3xf32> -> tensor<2xi64>
  func.return
}

// -----

// expected-error@unknown {{graph.shape_of: expected a result of i32 or i64, got tensor<2xi8>}}
func.func @f(%x: tensor<2x3xf32>, %y: tensor<4x3xf32>, %i: tensor<2xi64>, %d: tensor<?xf32>) {
  %r = graph.shape_of %x start 0 end 2 : tensor<2x3xf32> -> tensor<2xi8>
  func.return
}

// -----

// expected-error@unknown {{graph.reshape: the new shape must be a vector of integers, got tensor<2x3xf32>}}
func.func @f(%x: tensor<2x3xf32>, %y: tensor<4x3xf32>, %i: tensor<2xi64>, %d: tensor<?xf32>) {
  %r = graph.reshape %x, %x : tensor<2x3xf32>, tensor<2x3xf32> -> tensor<6xf32>
  func.return
}

// -----

// expected-error@unknown {{graph.reshape: expected a result of shape}}
func.func @f(%x: tensor<2x3xf32>, %y: tensor<4x3xf32>, %i: tensor<2xi64>, %d: tensor<?xf32>) {
  %r = graph.reshape %x, %i : tensor<2x3xf32>, tensor<2xi64> -> tensor<6xf32>
  func.return
}

// -----

// expected-error@unknown {{graph.reshape: expected 2 operands, got 1}}
func.func @f(%x: tensor<2x3xf32>, %y: tensor<4x3xf32>, %i: tensor<2xi64>, %d: tensor<?xf32>) {
  %r = graph.reshape %x : tensor<2x3xf32> -> tensor<6xf32>
  func.return
}

// -----

// expected-error@unknown {{graph.squeeze: axis 0 has size 2; only a dimension of size 1 can be left out}}
func.func @f(%x: tensor<2x3xf32>, %y: tensor<4x3xf32>, %i: tensor<2xi64>, %d: tensor<?xf32>) {
  %r = graph.squeeze %x axes [0] : tensor<2x3xf32> -> tensor<3xf32>
  func.return
}

// -----

// expected-error@unknown {{graph.unsqueeze: axis 3 is out of range [0, 2] for rank 3}}
func.func @f(%x: tensor<2x3xf32>, %y: tensor<4x3xf32>, %i: tensor<2xi64>, %d: tensor<?xf32>) {
  %r = graph.unsqueeze %x axes [3] : tensor<2x3xf32> -> tensor<2x3x1xf32>
  func.return
}

// -----

// expected-error@unknown {{graph.unsqueeze: axes [0, 0] name a dimension twice}}
func.func @f(%x: tensor<2x3xf32>, %y: tensor<4x3xf32>, %i: tensor<2xi64>, %d: tensor<?xf32>) {
  %r = graph.unsqueeze %x axes [0, 0] : tensor<2x3xf32> -> tensor<1x1x2x3xf32>
  func.return
}

// -----

// expected-error@unknown {{graph.concat: element types differ: tensor<2x3xf32>, tensor<2xi64>}}
func.func @f(%x: tensor<2x3xf32>, %y: tensor<4x3xf32>, %i: tensor<2xi64>, %d: tensor<?xf32>) {
  %r = graph.concat %x, %i axis 0 : tensor<2x3xf32>, tensor<2xi64> -> tensor<4x3xf32>
  func.return
}

// -----

// expected-error@unknown {{graph.concat: shapes (2, 3) and (4, 3) differ off axis 1}}
func.func @f(%x: tensor<2x3xf32>, %y: tensor<4x3xf32>, %i: tensor<2xi64>, %d: tensor<?xf32>) {
  %r = graph.concat %x, %y axis 1 : tensor<2x3xf32>, tensor<4x3xf32> -> tensor<2x6xf32>
  func.return
}

// -----

// expected-error@unknown {{graph.concat: expected element type f32 as the operand has, got i32}}
func.func @f(%x: tensor<2x3xf32>, %y: tensor<4x3xf32>, %i: tensor<2xi64>, %d: tensor<?xf32>) {
  %r = graph.concat %x, %y axis 0 : tensor<2x3xf32>, tensor<4x3xf32> -> tensor<6x3xi32>
  func.return
}

// -----

// expected-error@unknown {{graph.slice: 2 positions from 2 to 3 are not on an axis of size 3}}
func.func @f(%x: tensor<2x3xf32>, %y: tensor<4x3xf32>, %i: tensor<2xi64>, %d: tensor<?xf32>) {
  %r = graph.slice %x axis 1 start 2 step 1 count 2 : tensor<2x3xf32> -> tensor<2x2xf32>
  func.return
}

// -----

// expected-error@unknown {{graph.slice: 2 positions from 2 to 2 are not on an axis of size 3}}
func.func @f(%x: tensor<2x3xf32>, %y: tensor<4x3xf32>, %i: tensor<2xi64>, %d: tensor<?xf32>) {
  %r = graph.slice %x axis 1 start 2 step 0 count 2 : tensor<2x3xf32> -> tensor<2x2xf32>
  func.return
}

// -----

// expected-error@unknown {{graph.slice: 1 positions from 0 to 0 are not on an axis of an unknown size}}
func.func @f(%x: tensor<2x3xf32>, %y: tensor<4x3xf32>, %i: tensor<2xi64>, %d: tensor<?xf32>) {
  %r = graph.slice %d axis 0 start 0 step 1 count 1 : tensor<?xf32> -> tensor<1xf32>
  func.return
}

// -----

// expected-error@unknown {{graph.slice: axis 2 is out of range [0, 1] for rank 2}}
func.func @f(%x: tensor<2x3xf32>, %y: tensor<4x3xf32>, %i: tensor<2xi64>, %d: tensor<?xf32>) {
  %r = graph.slice %x axis 2 start 0 step 1 count 1 : tensor<2x3xf32> -> tensor<2x1xf32>
  func.return
}

// -----

// expected-error@unknown {{expected a tensor type for the result, got i64}}
func.func @f(%x: tensor<2x3xf32>, %y: tensor<4x3xf32>, %i: tensor<2xi64>, %d: tensor<?xf32>) {
  %r = graph.cast %x : tensor<2x3xf32> -> i64
  func.return
}

// -----

// expected-error@unknown {{graph.elementwise: there is no function 'foo'; there are add, subtract}}
func.func @f(%x: tensor<2x3xf32>, %y: tensor<4x3xf32>, %i: tensor<2xi64>, %d: tensor<?xf32>) {
  %r = graph.elementwise %x, %x function "foo" : tensor<2x3xf32>, tensor<2x3xf32> -> tensor<2x3xf32>
  func.return
}

// -----

// expected-error@unknown {{graph.elementwise: add has 2 operands, got 1}}
func.func @f(%x: tensor<2x3xf32>, %y: tensor<4x3xf32>, %i: tensor<2xi64>, %d: tensor<?xf32>) {
  %r = graph.elementwise %x function "add" : tensor<2x3xf32> -> tensor<2x3xf32>
  func.return
}

// -----

// expected-error@unknown {{graph.elementwise: add is of one type, got f32 and i64}}
func.func @f(%x: tensor<2x3xf32>, %y: tensor<4x3xf32>, %i: tensor<2xi64>, %d: tensor<?xf32>) {
  %r = graph.elementwise %x, %i function "add" : tensor<2x3xf32>, tensor<2xi64> -> tensor<2x3xf32>
  func.return
}

// -----

// expected-error@unknown {{graph.elementwise: select chooses by booleans, got i64}}
func.func @f(%x: tensor<2x3xf32>, %y: tensor<4x3xf32>, %i: tensor<2xi64>, %d: tensor<?xf32>) {
  %r = graph.elementwise %i, %x, %x function "select" : tensor<2xi64>, tensor<2x3xf32>, tensor<2x3xf32> -> tensor<2x3xf32>
  func.return
}

// -----

// expected-error@unknown {{graph.elementwise: shapes [2, 3] and [4, 3] do not broadcast}}
func.func @f(%x: tensor<2x3xf32>, %y: tensor<4x3xf32>, %i: tensor<2xi64>, %d: tensor<?xf32>) {
  %r = graph.elementwise %x, %y function "add" : tensor<2x3xf32>, tensor<4x3xf32> -> tensor<2x3xf32>
  func.return
}

// -----

// expected-error@unknown {{graph.elementwise: expected a result of i1, got float32}}
func.func @f(%x: tensor<2x3xf32>, %y: tensor<4x3xf32>, %i: tensor<2xi64>, %d: tensor<?xf32>) {
  %r = graph.elementwise %x, %x function "less" : tensor<2x3xf32>, tensor<2x3xf32> -> tensor<2x3xf32>
  func.return
}

// -----

// expected-error@unknown {{that of floats depends on their order}}
func.func @f(%x: tensor<2x3xf32>, %y: tensor<4x3xf32>, %i: tensor<2xi64>, %d: tensor<?xf32>) {
  %r = graph.reduce %x function "sum" axes [0] : tensor<2x3xf32> -> tensor<3xf32>
  func.return
}

// -----

// expected-error@unknown {{graph.reduce: axes [2] are no distinct dimensions of rank 2}}
func.func @f(%x: tensor<2x3xf32>, %y: tensor<4x3xf32>, %i: tensor<2xi64>, %d: tensor<?xf32>) {
  %r = graph.reduce %x function "maximum" axes [2] : tensor<2x3xf32> -> tensor<2x3xf32>
  func.return
}

// -----

// expected-error@unknown {{graph.cumsum: axis 1 is out of range [0, 0] for rank 1}}
func.func @f(%x: tensor<2x3xf32>, %y: tensor<4x3xf32>, %i: tensor<2xi64>, %d: tensor<?xf32>) {
  %r = graph.cumsum %i axis 1 : tensor<2xi64> -> tensor<2xi64>
  func.return
}

// -----

// expected-error@unknown {{graph.range: start, end and step of a range are of rank 0}}
func.func @f(%x: tensor<2x3xf32>, %y: tensor<4x3xf32>, %i: tensor<2xi64>, %d: tensor<?xf32>) {
  %r = graph.range %i, %i, %i : tensor<2xi64>, tensor<2xi64>, tensor<2xi64> -> tensor<?xi64>
  func.return
}

// -----

// expected-error@unknown {{graph.transpose: order [0, 0] is none of the 2 dimensions of [2, 3]}}
func.func @f(%x: tensor<2x3xf32>, %y: tensor<4x3xf32>, %i: tensor<2xi64>, %d: tensor<?xf32>) {
  %r = graph.transpose %x order [0, 0] : tensor<2x3xf32> -> tensor<2x3xf32>
  func.return
}

// -----

// expected-error@unknown {{graph.broadcast: the sizes must be a vector of integers, got tensor<2x3xf32>}}
func.func @f(%x: tensor<2x3xf32>, %y: tensor<4x3xf32>, %i: tensor<2xi64>, %d: tensor<?xf32>) {
  %r = graph.broadcast %x, %x : tensor<2x3xf32>, tensor<2x3xf32> -> tensor<2x3xf32>
  func.return
}

// -----

// expected-error@unknown {{graph.strided_slice: each of starts, ends and steps must be a vector of integers of length 1, got tensor<2xi64>}}
func.func @f(%x: tensor<2x3xf32>, %y: tensor<4x3xf32>, %i: tensor<2xi64>, %d: tensor<?xf32>) {
  %r = graph.strided_slice %x, %i, %i, %i axes [0] : tensor<2x3xf32>, tensor<2xi64>, tensor<2xi64>, tensor<2xi64> -> tensor<?x3xf32>
  func.return
}

// -----

// expected-error@unknown {{graph.pad: the value must be a scalar of f32, got tensor<2xi64>}}
func.func @f(%x: tensor<2x3xf32>, %y: tensor<4x3xf32>, %i: tensor<2xi64>, %d: tensor<?xf32>) {
  %r = graph.pad %x, %i, %i, %i mode "constant" axes [0, 1] : tensor<2x3xf32>, tensor<2xi64>, tensor<2xi64>, tensor<2xi64> -> tensor<?x?xf32>
  func.return
}

// -----

// expected-error@unknown {{graph.bags: reduce 'min' is none of sum, mean, max}}
func.func @f(%x: tensor<2x3xf32>, %y: tensor<4x3xf32>, %i: tensor<2xi64>, %d: tensor<?xf32>) {
  %r = graph.bags %x, %i reduce "min" bounds "error" group 1 : tensor<2x3xf32>, tensor<2xi64> -> tensor<3xf32>
  func.return
}

// -----

// expected-error@unknown {{graph.bags: bounds 'clip' is none of error, zero, natural}}
func.func @f(%x: tensor<2x3xf32>, %y: tensor<4x3xf32>, %i: tensor<2xi64>, %d: tensor<?xf32>) {
  %r = graph.bags %x, %i reduce "sum" bounds "clip" group 1 : tensor<2x3xf32>, tensor<2xi64> -> tensor<3xf32>
  func.return
}

// -----

// expected-error@unknown {{graph.bags: group 2 is none of 1, 4}}
func.func @f(%x: tensor<2x3xf32>, %y: tensor<4x3xf32>, %i: tensor<2xi64>, %d: tensor<?xf32>) {
  %r = graph.bags %x, %i reduce "sum" bounds "error" group 2 : tensor<2x3xf32>, tensor<2xi64> -> tensor<3xf32>
  func.return
}

// -----

// expected-error@unknown {{graph.bags: bags have 2 to 5 operands, got 1}}
func.func @f(%x: tensor<2x3xf32>, %y: tensor<4x3xf32>, %i: tensor<2xi64>, %d: tensor<?xf32>) {
  %r = graph.bags %x reduce "sum" bounds "error" group 1 : tensor<2x3xf32> -> tensor<3xf32>
  func.return
}

// -----

// expected-error@unknown {{graph.bags: a maximum of bags has no rows of zeros; its bounds are error or natural}}
func.func @f(%x: tensor<2x3xf32>, %y: tensor<4x3xf32>, %i: tensor<2xi64>, %d: tensor<?xf32>) {
  %r = graph.bags %x, %i reduce "max" bounds "zero" group 1 : tensor<2x3xf32>, tensor<2xi64> -> tensor<3xf32>
  func.return
}

// -----

// expected-error@unknown {{graph.bags: indices, starts and ends are integers, got f32}}
func.func @f(%x: tensor<2x3xf32>, %y: tensor<4x3xf32>, %i: tensor<2xi64>, %d: tensor<?xf32>) {
  %r = graph.bags %x, %d reduce "sum" bounds "error" group 1 : tensor<2x3xf32>, tensor<?xf32> -> tensor<3xf32>
  func.return
}

// -----

// expected-error@unknown {{graph.bags: rows of zeros and groups are of rows of indices, and of no narrow floats}}
func.func @f(%x: tensor<2x3xf32>, %y: tensor<4x3xf32>, %i: tensor<2xi64>, %d: tensor<?xf32>) {
  %r = graph.bags %x, %i, %i, %i reduce "sum" bounds "error" group 4 : tensor<2x3xf32>, tensor<2xi64>, tensor<2xi64>, tensor<2xi64> -> tensor<2x3xf32>
  func.return
}

// -----

// expected-error@unknown {{graph.bags: weights must have the shape of indices, [2], got [4, 3]}}
func.func @f(%x: tensor<2x3xf32>, %y: tensor<4x3xf32>, %i: tensor<2xi64>, %d: tensor<?xf32>) {
  %r = graph.bags %x, %i, %y reduce "sum" bounds "error" group 1 : tensor<2x3xf32>, tensor<2xi64>, tensor<4x3xf32> -> tensor<3xf32>
  func.return
}

// -----

// expected-error@unknown {{graph.count_less: integers of one type are counted, got i64, f32}}
func.func @f(%x: tensor<2x3xf32>, %y: tensor<4x3xf32>, %i: tensor<2xi64>, %d: tensor<?xf32>) {
  %r = graph.count_less %i, %d : tensor<2xi64>, tensor<?xf32> -> tensor<?xi64>
  func.return
}
