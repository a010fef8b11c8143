// RUN: gathernest-opt %s --verify-diagnostics --split-input-file

func.func @f(%data: tensor<5xf32>, %indices: tensor<3xf32>) -> tensor<3xf32> {
  // expected-error@+1 {{expected indices of an integer type of 8 to 64 bits, got f32}}
  %r = gather.gather %data, %indices axis 0 batch_dims 0 bounds zero : tensor<5xf32>, tensor<3xf32> -> tensor<3xf32>
  func.return %r : tensor<3xf32>
}

// -----

func.func @f(%data: tensor<5xf32>, %indices: tensor<3xi64>) -> tensor<4xf32> {
  // expected-error@+1 {{expected a result of shape (3,), got (4,)}}
  %r = gather.gather %data, %indices axis 0 batch_dims 0 bounds zero : tensor<5xf32>, tensor<3xi64> -> tensor<4xf32>
  func.return %r : tensor<4xf32>
}

// -----

func.func @f(%data: tensor<5xf32>, %indices: tensor<3xi64>) -> tensor<3xf64> {
  // expected-error@+1 {{expected element type f32 as data has, got f64}}
  %r = gather.gather %data, %indices axis 0 batch_dims 0 bounds zero : tensor<5xf32>, tensor<3xi64> -> tensor<3xf64>
  func.return %r : tensor<3xf64>
}

// -----

func.func @f(%data: memref<5xf32>, %indices: memref<3xi64>) {
  // expected-error@+1 {{expected a result and no `into` on tensors, `into` and no result on memrefs}}
  gather.gather %data, %indices axis 0 batch_dims 0 bounds zero : memref<5xf32>, memref<3xi64>
  func.return
}

// -----

func.func @f(%data: tensor<5xf32>, %indices: tensor<3xui8>) -> tensor<3xf32> {
  // expected-error@+1 {{`unsigned` is for erased index types; ui8 says it by itself}}
  %r = gather.gather %data, %indices axis 0 batch_dims 0 bounds zero unsigned : tensor<5xf32>, tensor<3xui8> -> tensor<3xf32>
  func.return %r : tensor<3xf32>
}

// -----

func.func @f(%data: tensor<5x4xf32>, %indices: tensor<3x3xi64>) -> tensor<3xf32> {
  // expected-error@+1 {{the last size of indices is the length of the tuples and must be in [1, 2]}}
  %r = gather.gather_nd %data, %indices batch_dims 0 bounds zero : tensor<5x4xf32>, tensor<3x3xi64> -> tensor<3xf32>
  func.return %r : tensor<3xf32>
}

// -----

func.func @f(%data: tensor<5x4xf32>, %indices: tensor<6x3xi64>) -> tensor<6x3xf32> {
  // expected-error@+1 {{indices must not be larger than data off axis 1}}
  %r = gather.gather_elements %data, %indices axis 1 bounds zero : tensor<5x4xf32>, tensor<6x3xi64> -> tensor<6x3xf32>
  func.return %r : tensor<6x3xf32>
}

// -----

func.func @f(%n: index, %x: i64) {
  // expected-error@+1 {{gather.loop a: expected gather.yield with no value, got one}}
  gather.loop a(%i) = %n to %n step %n {
    gather.yield %x : i64
  }
  func.return
}

// -----

func.func @f(%n: index) {
  %zero = arith.constant 0 : index
  // expected-error@+1 {{gather.loop a: expected a step of 1 or more, got 0}}
  gather.loop a(%i) = %n to %n step %zero {
  }
  func.return
}

// -----

func.func @f(%n: index, %x: i16) {
  // expected-error@+1 {{expected a bounds mode (error, zero, clip, wrap, unchecked), got 'zeros'}}
  %p, %v = gather.resolve %x within %n bounds zeros : i16
  func.return
}

// -----

func.func @f(%data: memref<5x4xi32>, %n: index, %m: i1) {
  // expected-error@+1 {{gather.masked_load: expected 2 subscripts, got 1}}
  %x = gather.masked_load %data[%n], %m : memref<5x4xi32> -> i32
  func.return
}

// -----

func.func @f(%n: index) {
  // expected-error@+1 {{expected operand #0 (%j) to be defined before its use}}
  %k = arith.addi %j, %n : index
  gather.loop a(%i) = %n to %n step %n {
    %j = arith.addi %i, %n : index
  }
  func.return
}

// -----

func.func @f(%grad: tensor<3xf16>, %indices: tensor<3xi64>) -> tensor<5xf16> {
  // expected-error@+1 {{expected elements of f32, f64, a complex of them or integers of 8 to 64 bits, got f16; narrower floats are summed in f32}}
  %r = gather.gather_grad %grad, %indices axis 0 batch_dims 0 bounds zero : tensor<3xf16>, tensor<3xi64> -> tensor<5xf16>
  func.return %r : tensor<5xf16>
}

// -----

func.func @f(%grad: tensor<3xi32>, %indices: tensor<3xi64>) -> tensor<5xi32> {
  // expected-error@+1 {{scale must be a whole number below 2**53 for a gradient of int32, got 0.5}}
  %r = gather.gather_grad %grad, %indices axis 0 batch_dims 0 bounds zero scale 0.5 : tensor<3xi32>, tensor<3xi64> -> tensor<5xi32>
  func.return %r : tensor<5xi32>
}

// -----

func.func @f(%grad: tensor<3xf32>, %indices: tensor<3xi64>) -> tensor<5xf32> {
  // expected-error@+1 {{scale must be at most 3.4028234663852886e+38 in size for a gradient of float32}}
  %r = gather.gather_grad %grad, %indices axis 0 batch_dims 0 bounds zero scale 1.0e39 : tensor<3xf32>, tensor<3xi64> -> tensor<5xf32>
  func.return %r : tensor<5xf32>
}

// -----

func.func @f(%grad: tensor<4xf32>, %indices: tensor<3xi64>) -> tensor<5xf32> {
  // expected-error@+1 {{expected grad of shape (3,), got (4,)}}
  %r = gather.gather_grad %grad, %indices axis 0 batch_dims 0 bounds zero : tensor<4xf32>, tensor<3xi64> -> tensor<5xf32>
  func.return %r : tensor<5xf32>
}

// -----

func.func @f(%out: memref<5xf32>, %n: index, %x: f32) {
  // expected-error@+1 {{gather.loop indices: expected parallel or ordered, got both}}
  gather.loop parallel ordered indices(%i) = %n to %n step %n {
  }
  func.return
}

// -----

func.func @f(%out: memref<5xf32>, %n: index, %x: i32) {
  // expected-error@+1 {{expected an element of type f32 or a vector of them, got i32}}
  gather.accumulate %x, %out[%n] : i32, memref<5xf32>
  func.return
}

// -----

func.func @f(%out: memref<5xf32>, %n: index, %x: vector<2x4xf32>) {
  // expected-error@+1 {{expected an element of type f32 or a vector of them, got vector<2x4xf32>}}
  gather.accumulate %x, %out[%n] : vector<2x4xf32>, memref<5xf32>
  func.return
}

// -----

func.func @f(%out: memref<5xf32>, %n: index, %x: f32) {
  // expected-error@+1 {{expected 1 subscripts, got 2}}
  gather.accumulate %x, %out[%n, %n] : f32, memref<5xf32>
  func.return
}

// -----

func.func @f(%data: tensor<9x4xf16>, %indices: tensor<2x3xi64>) -> tensor<2x4xf16> {
  // expected-error@+1 {{expected element type f32 as data has, got f16}}
  %r = gather.gather_reduce %data, %indices bounds zero : tensor<9x4xf16>, tensor<2x3xi64> -> tensor<2x4xf16>
  func.return %r : tensor<2x4xf16>
}

// -----

func.func @f(%data: tensor<9x4xf32>, %indices: tensor<2x3xi64>) -> tensor<3x4xf32> {
  // expected-error@+1 {{expected a result of shape (2, 4), got (3, 4)}}
  %r = gather.gather_reduce %data, %indices bounds zero : tensor<9x4xf32>, tensor<2x3xi64> -> tensor<3x4xf32>
  func.return %r : tensor<3x4xf32>
}

// -----

func.func @f(%data: tensor<9xf32>, %indices: tensor<i64>) -> tensor<f32> {
  // expected-error@+1 {{whose last dimension is a bag, got ranks 1 and 0}}
  %r = gather.gather_reduce %data, %indices bounds zero : tensor<9xf32>, tensor<i64> -> tensor<f32>
  func.return %r : tensor<f32>
}

// -----

func.func @f(%data: tensor<9x4xi32>, %indices: tensor<2x3xi64>) -> tensor<2x4xi32> {
  // expected-error@+1 {{gather.gather_mean: expected floats, got i32}}
  %r = gather.gather_mean %data, %indices bounds zero : tensor<9x4xi32>, tensor<2x3xi64> -> tensor<2x4xi32>
  func.return %r : tensor<2x4xi32>
}

// -----

func.func @f(%data: tensor<9x4xui8>, %indices: tensor<2x3xi64>) -> tensor<2x4xui8> {
  // expected-error@+1 {{expected floats or signed integers, got ui8}}
  %r = gather.gather_max %data, %indices bounds zero : tensor<9x4xui8>, tensor<2x3xi64> -> tensor<2x4xui8>
  func.return %r : tensor<2x4xui8>
}

// -----

func.func @f(%a: vector<4xf32>, %c: vector<2xi1>) -> vector<4xf32> {
  // expected-error@+1 {{arith.select: expected vector<4xi1> of conditions, got vector<2xi1>}}
  %r = arith.select %c, %a, %a : vector<2xi1>, vector<4xf32>
  func.return %r : vector<4xf32>
}

// -----

func.func @f(%data: tensor<9x4xf64>, %indices: tensor<2x3x2xi32>) -> tensor<2x4xf64> {
  // expected-error@+1 {{expected indices as wide as the weights, got i32}}
  %r = gather.gather_weighted %data, %indices bounds zero : tensor<9x4xf64>, tensor<2x3x2xi32> -> tensor<2x4xf64>
  func.return %r : tensor<2x4xf64>
}

// -----

func.func @f(%data: tensor<9x4xf16>, %indices: tensor<2x5x4xi32>) -> tensor<2x4xf32> {
  // expected-error@+1 {{whose last dimension is an index and its weight, of size 2, or 3 with a bias, got 4}}
  %r = gather.gather_weighted %data, %indices bounds zero : tensor<9x4xf16>, tensor<2x5x4xi32> -> tensor<2x4xf32>
  func.return %r : tensor<2x4xf32>
}

// -----

func.func @f() {
  // expected-error@+1 {{an integer type has at most 16777215 bits, got i2147483647}}
  %a = arith.constant 1 : i2147483647
  func.return
}

// -----

func.func @f(%t: tensor<5x4xf32>, %i: tensor<3xi64>) {
  // expected-error@+1 {{Expected ':'}}
  %r = gather.gather %t, %i axis 0 batch_dims 0 bounds error version one
  func.return
}

// -----

func.func @f(%t: tensor<5x4xf32>, %i: tensor<3xi64>) {
  // expected-error@+1 {{Expected float literal}}
  %r = gather.gather_grad %t, %i axis 0 batch_dims 0 bounds error scale 2
  func.return
}

// -----

func.func @f(%t: tensor<5x4xf32>, %i: tensor<3xi64>) {
  // expected-error@+1 {{Expected integer literal}}
  %r = gather.gather %t, %i axis true batch_dims 0 bounds error
  func.return
}

// -----

// expected-error@+1 {{expected a bounds mode (error, zero, clip, wrap, unchecked), as in `bounds zero` or #gather<bounds zero>}}
func.func private @g() attributes {b = #gather.bounds<zero>}

// -----

// expected-error@+1 {{expected a bounds mode (error, zero, clip, wrap, unchecked), got 'zeros'; did you mean 'zero'?}}
func.func private @g() attributes {b = #gather<bounds zeros>}

// -----

// expected-error@+1 {{Expected integer literal}}
func.func private @g() attributes {v = #gather.view<batch[-1]>}

// -----

func.func @f(%n: index) {
  // expected-error@+1 {{expected gather.yield with a value, got none}}
  %s = gather.loop a(%a) = %n to %n step %n sum {
  gather.yield
  }
  func.return
}

// -----

func.func @f(%n: index) {
  // expected-error@+1 {{expected a name without commas, got 'a,b'}}
  gather.loop "a,b"(%a) = %n to %n step %n {
  }
  func.return
}

// -----

func.func @f(%n: index) {
  // expected-error@+1 {{expected a name without commas, got ''}}
  gather.loop ""(%a) = %n to %n step %n {
  }
  func.return
}

// -----

func.func @f(%n: index) {
  // expected-error@+1 {{expected one block argument of type index}}
  "gather.loop"(%n, %n, %n) <{loop_name = "a"}> ({
  ^bb0(%a: i64):
  "gather.yield"() : () -> ()
  }) : (index, index, index) -> ()
  func.return
}

// -----

func.func @f(%n: index, %m: i1) {
  // expected-error@+1 {{expected an index of 8 to 64 bits, got i1}}
  %p, %v = gather.resolve %m within %n bounds zero : i1
  func.return
}

// -----

func.func @f(%n: index, %m: i1, %d: memref<5x4xi32>) {
  // expected-error@+1 {{expected an element of type i32, got i64}}
  %e = "gather.masked_load"(%d, %n, %n, %m) : (memref<5x4xi32>, index, index, i1) -> i64
  func.return
}

// -----

func.func @f(%t: tensor<5x4xf32>, %i: tensor<3xi64>) {
  // expected-error@+2 {{expected a tensor type for the result}}
  %r = gather.gather %t, %i axis 0 batch_dims 0 bounds error : tensor<5x4xf32>, tensor<3xi64> -> i64
  func.return
}

// -----

func.func @f(%t: tensor<5x4xf32>, %i: tensor<3xi64>) {
  // expected-error@+1 {{expected either a result or `into`, not both or neither}}
  gather.gather %t, %i axis 0 batch_dims 0 bounds zero : tensor<5x4xf32>, tensor<3xi64>
  func.return
}

// -----

func.func @f(%d: memref<5x4xi32>, %i: memref<5xi64>) {
  // expected-error@+1 {{gather.gather: expected `into` another memref than data and indices}}
  gather.gather %d, %i into %d axis 0 batch_dims 0 bounds zero : memref<5x4xi32>, memref<5xi64>, memref<5x4xi32>
  func.return
}

// -----

func.func @f(%d: memref<5x4xi32>, %i: tensor<3xi64>) {
  // expected-error@+1 {{expected data and indices both tensors or both memrefs}}
  %r = gather.gather %d, %i axis 0 batch_dims 0 bounds zero : memref<5x4xi32>, tensor<3xi64> -> tensor<3x4xi32>
  func.return
}

// -----

func.func @f(%t: tensor<5x4xf32>, %i: tensor<3xi64>) {
  // expected-error@+1 {{expected a result of shape (3, 4), got (3,)}}
  %r = gather.gather_elements %t, %i axis 0 bounds zero : tensor<5x4xf32>, tensor<3xi64> -> tensor<3xf32>
  func.return
}

// -----

// expected-error@+1 {{expected 5 bytes for '|S5', got 4}}
func.func private @f(!gather.bytes<4, "|S5">)

// -----

// expected-error@+1 {{'nonsense' is not an element type}}
func.func private @f(!gather.bytes<4, "nonsense">)

// -----

func.func @f(%n: index) {
  // expected-error@+1 {{expected operand #0 (%a) to be defined before its use}}
  %b = arith.addi %a, %n : index
  %a = arith.addi %n, %n : index
  func.return
}

// -----

func.func @f(%n: index) {
  // expected-error@+1 {{expected operand #1 (%b) to be defined before its use}}
  %b = arith.addi %n, %b : index
  func.return
}

// -----

func.func @f(%n: index) {
  // expected-error@+1 {{expected operand #1 (%k) to be defined before its use}}
  %c = arith.addi %n, %k : index
  gather.loop a(%a) = %n to %n step %n {
  %k = arith.addi %a, %n : index
  }
  func.return
}

// -----

func.func @f(%n: index) {
  // expected-error@+1 {{expected operand #0 (%k) to be defined before its use}}
  gather.loop a(%a) = %k to %n step %n {
  }
  %k = arith.addi %n, %n : index
  func.return
}

// -----

func.func @f(%d: memref<5x4xi64>, %i: memref<5x3xi64>, %o: memref<5x1xi64>) {
  // expected-error@+1 {{expected a result of shape (5, 3), got (5, 1)}}
  gather.gather %d, %i into %o axis 1 batch_dims 1 bounds zero : memref<5x4xi64>, memref<5x3xi64>, memref<5x1xi64>
  func.return
}

// -----

func.func @f(%d: memref<5x4xi64>, %i: memref<?x3xi64>, %o: memref<5x?x1xi64>) {
  // expected-error@+1 {{expected a result of shape (5, ?, 3), got (5, ?, 1)}}
  gather.gather %d, %i into %o axis -1 batch_dims 0 bounds zero : memref<5x4xi64>, memref<?x3xi64>, memref<5x?x1xi64>
  func.return
}

// -----

func.func @f(%d: memref<2x3x4xi64>, %i: memref<2x1xi64>, %o: memref<2x1xi64>) {
  // expected-error@+1 {{expected a result of shape (2, 4), got (2, 1)}}
  gather.gather_nd %d, %i into %o batch_dims 1 bounds zero : memref<2x3x4xi64>, memref<2x1xi64>, memref<2x1xi64>
  func.return
}

// -----

func.func @f(%d: memref<?x4xi64>, %i: memref<9x3xi64>, %o: memref<9x1xi64>) {
  // expected-error@+1 {{expected a result of shape (9, 3), got (9, 1)}}
  gather.gather_elements %d, %i into %o axis 0 bounds zero : memref<?x4xi64>, memref<9x3xi64>, memref<9x1xi64>
  func.return
}

// -----

func.func @f(%d: memref<5x4xi64>, %i: memref<9xi64>, %o: memref<9x1xi64>) {
  // expected-error@+1 {{expected a result of shape (9, 4), got (9, 1)}}
  gather.gather_elements %d, %i into %o axis 0 bounds zero : memref<5x4xi64>, memref<9xi64>, memref<9x1xi64>
  func.return
}

// -----

func.func @f(%d: tensor<2x5x?xf32>, %i: tensor<4x?xi64>) {
  // expected-error@+1 {{got data (2, 5, ?) and indices (4, ?): they differ in dimension 0}}
  %r = gather.gather %d, %i axis 1 batch_dims 1 bounds zero : tensor<2x5x?xf32>, tensor<4x?xi64> -> tensor<2x?x?xf32>
  func.return
}

// -----

func.func @f(%d: tensor<2x3xf32>, %i: tensor<2x?xi64>) {
  // expected-error@+1 {{the last size of indices is the length of the tuples and must be in [1, 2] for data of rank 2 and batch_dims 0, got an unknown length}}
  %r = gather.gather_nd %d, %i batch_dims 0 bounds zero : tensor<2x3xf32>, tensor<2x?xi64> -> tensor<2xf32>
  func.return
}

// -----

func.func @f(%d: tensor<2x3xf32>, %i: tensor<?x4xi64>) {
  // expected-error@+1 {{indices must not be larger than data off axis 0, got data (2, 3) and indices (?, 4): dimension 1 is}}
  %r = gather.gather_elements %d, %i axis 0 bounds zero : tensor<2x3xf32>, tensor<?x4xi64> -> tensor<?x4xf32>
  func.return
}

// -----

// expected-error @+1 {{a size has at most 63 bits, got 9223372036854775808}}
func.func @gather(%data: tensor<9223372036854775808xf32>) {
  func.return
}

// -----

// expected-error @+1 {{expected ASCII outside of strings and comments, got '９'}}
func.func @gather(%data: tensor<９xf32>) {
  func.return
}
