// RUN: gathernest-opt %s

// CHECK: gather.gather %data, %indices axis -1 batch_dims -1 bounds unchecked unsigned version "onnx.Gather-13" : tensor<2x5xf32>, tensor<2x3xi8> -> tensor<2x3xf32>
func.func @gather(%data: tensor<2x5xf32>, %indices: tensor<2x3xi8>) -> tensor<2x3xf32> {
  %r = gather.gather %data, %indices axis -1 batch_dims -1 bounds unchecked unsigned version "onnx.Gather-13" : tensor<2x5xf32>, tensor<2x3xi8> -> tensor<2x3xf32>
  func.return %r : tensor<2x3xf32>
}

// CHECK: gather.gather_nd %data, %indices into %out batch_dims 0 bounds wrap {note = 1 : i64} : memref<2x5xf32>, memref<3x2xi64>, memref<3xf32>
func.func @nd(%data: memref<2x5xf32>, %indices: memref<3x2xi64>, %out: memref<3xf32>) {
  gather.gather_nd %data, %indices into %out batch_dims 0 bounds wrap {note = 1 : i64} : memref<2x5xf32>, memref<3x2xi64>, memref<3xf32>
  func.return
}

// CHECK: gather.gather_elements %data, %indices axis 0 bounds clip : tensor<?x5xf32>, tensor<3x5xui64> -> tensor<3x5xf32>
func.func @elements(%data: tensor<?x5xf32>, %indices: tensor<3x5xui64>) -> tensor<3x5xf32> {
  %r = gather.gather_elements %data, %indices axis 0 bounds clip : tensor<?x5xf32>, tensor<3x5xui64> -> tensor<3x5xf32>
  func.return %r : tensor<3x5xf32>
}

// CHECK: gather.loop parallel "my loop"(%i) = %n to %n step %n {
// CHECK: %[[SUM:.*]] = gather.loop inner(%j) = %n to %n step %n sum {
// CHECK: gather.resolve %x within %n bounds zero unsigned : i64
// CHECK: gather.masked_load %data[%i, %j], %valid : memref<2x5xi32> -> i32
// CHECK: gather.yield %x : i64
func.func @nest(%data: memref<2x5xi32>, %n: index, %x: i64) {
  gather.loop parallel "my loop"(%i) = %n to %n step %n {
    %sum = gather.loop inner(%j) = %n to %n step %n sum {
      %position, %valid = gather.resolve %x within %n bounds zero unsigned : i64
      %element = gather.masked_load %data[%i, %j], %valid : memref<2x5xi32> -> i32
      gather.yield %x : i64
    }
  }
  func.return
}

// CHECK: scf.parallel (%i, %j) = (%n, %n) to (%n, %n) step (%n, %n) init (%x) -> i64 {
func.func @upstream(%n: index, %x: i64) -> i64 {
  %r = scf.parallel (%i, %j) = (%n, %n) to (%n, %n) step (%n, %n) init (%x) -> i64 {
    scf.reduce(%x : i64) {
    ^bb0(%a: i64, %b: i64):
      %c = arith.addi %a, %b : i64
      scf.reduce.return %c : i64
    }
  }
  func.return %r : i64
}

// CHECK: gather.gather_grad %grad, %indices axis -1 batch_dims 0 bounds error scale 1.000000e-01 unsigned version "labview.GatherND" : tensor<2x3xf32>, tensor<3xi8> -> tensor<2x5xf32>
func.func @grad(%grad: tensor<2x3xf32>, %indices: tensor<3xi8>) -> tensor<2x5xf32> {
  %r = gather.gather_grad %grad, %indices axis -1 batch_dims 0 bounds error scale 0.1 unsigned version "labview.GatherND" : tensor<2x3xf32>, tensor<3xi8> -> tensor<2x5xf32>
  func.return %r : tensor<2x5xf32>
}

// CHECK: gather.gather_nd_grad %grad, %indices into %out batch_dims 0 bounds wrap scale -2.000000e+00 : memref<3xi32>, memref<3x2xi64>, memref<2x5xi32>
func.func @nd_grad(%grad: memref<3xi32>, %indices: memref<3x2xi64>, %out: memref<2x5xi32>) {
  gather.gather_nd_grad %grad, %indices into %out batch_dims 0 bounds wrap scale -2.0 : memref<3xi32>, memref<3x2xi64>, memref<2x5xi32>
  func.return
}

// CHECK: gather.gather_elements_grad %grad, %indices axis 0 bounds clip : tensor<3x5xcomplex<f64>>, tensor<3x5xui64> -> tensor<?x5xcomplex<f64>>
func.func @elements_grad(%grad: tensor<3x5xcomplex<f64>>, %indices: tensor<3x5xui64>) -> tensor<?x5xcomplex<f64>> {
  %r = gather.gather_elements_grad %grad, %indices axis 0 bounds clip : tensor<3x5xcomplex<f64>>, tensor<3x5xui64> -> tensor<?x5xcomplex<f64>>
  func.return %r : tensor<?x5xcomplex<f64>>
}

// CHECK: gather.loop ordered indices(%i) = %n to %n step %n {
// CHECK: gather.accumulate %x, %out[%i, %n] : f32, memref<2x5xf32>
// CHECK: gather.accumulate %x, %out[%i, %n] if %valid {note = 1 : i64} : f32, memref<2x5xf32>
// CHECK: gather.accumulate %row, %out[%i, %n] if %valid : vector<4xf32>, memref<2x5xf32>
// CHECK: gather.accumulate %row, %out[%i, %n] max %valid : vector<4xf32>, memref<2x5xf32>
func.func @adding(%out: memref<2x5xf32>, %n: index, %x: f32, %row: vector<4xf32>, %valid: i1) {
  gather.loop ordered indices(%i) = %n to %n step %n {
    gather.accumulate %x, %out[%i, %n] : f32, memref<2x5xf32>
    gather.accumulate %x, %out[%i, %n] if %valid {note = 1 : i64} : f32, memref<2x5xf32>
    gather.accumulate %row, %out[%i, %n] if %valid : vector<4xf32>, memref<2x5xf32>
    gather.accumulate %row, %out[%i, %n] max %valid : vector<4xf32>, memref<2x5xf32>
  }
  func.return
}

// CHECK: gather.gather_reduce %data, %indices bounds error unsigned : tensor<9x4xf32>, tensor<2x3xi8> -> tensor<2x4xf32>
func.func @reduce(%data: tensor<9x4xf32>, %indices: tensor<2x3xi8>) -> tensor<2x4xf32> {
  %r = gather.gather_reduce %data, %indices bounds error unsigned : tensor<9x4xf32>, tensor<2x3xi8> -> tensor<2x4xf32>
  func.return %r : tensor<2x4xf32>
}

// CHECK: gather.gather_mean %data, %indices bounds clip : tensor<9x4xbf16>, tensor<2x3xi8> -> tensor<2x4xf32>
func.func @mean(%data: tensor<9x4xbf16>, %indices: tensor<2x3xi8>) -> tensor<2x4xf32> {
  %r = gather.gather_mean %data, %indices bounds clip : tensor<9x4xbf16>, tensor<2x3xi8> -> tensor<2x4xf32>
  func.return %r : tensor<2x4xf32>
}

// CHECK: gather.gather_weighted_mean %data, %indices bounds zero unsigned_data : tensor<9x4xi8>, tensor<2x3x3xi32>
func.func @weighted_mean(%data: tensor<9x4xi8>, %indices: tensor<2x3x3xi32>) -> tensor<2x4xf32> {
  %r = gather.gather_weighted_mean %data, %indices bounds zero unsigned_data : tensor<9x4xi8>, tensor<2x3x3xi32> -> tensor<2x4xf32>
  func.return %r : tensor<2x4xf32>
}

// CHECK: gather.gather_max %data, %indices bounds zero : tensor<9x4xi16>, tensor<2x3xi8> -> tensor<2x4xi16>
func.func @max(%data: tensor<9x4xi16>, %indices: tensor<2x3xi8>) -> tensor<2x4xi16> {
  %r = gather.gather_max %data, %indices bounds zero : tensor<9x4xi16>, tensor<2x3xi8> -> tensor<2x4xi16>
  func.return %r : tensor<2x4xi16>
}

// CHECK: %0 = arith.cmpf ogt, %a, %b : vector<4xf32>
// CHECK: %1 = arith.select %0, %a, %b : vector<4xi1>, vector<4xf32>
// CHECK: %2 = arith.select %c, %1, %b : vector<4xf32>
func.func @larger(%a: vector<4xf32>, %b: vector<4xf32>, %c: i1) -> vector<4xf32> {
  %0 = arith.cmpf ogt, %a, %b : vector<4xf32>
  %1 = arith.select %0, %a, %b : vector<4xi1>, vector<4xf32>
  %2 = arith.select %c, %1, %b : vector<4xf32>
  func.return %2 : vector<4xf32>
}

// CHECK: gather.gather_weighted %data, %indices bounds zero unsigned_data : tensor<9x4xi8>, tensor<2x3x2xi32> -> tensor<2x4xf32>
// CHECK: arith.uitofp %bytes : vector<4xi8> to vector<4xf32>
func.func @weighted(%data: tensor<9x4xi8>, %indices: tensor<2x3x2xi32>, %bytes: vector<4xi8>) -> tensor<2x4xf32> {
  %r = gather.gather_weighted %data, %indices bounds zero unsigned_data : tensor<9x4xi8>, tensor<2x3x2xi32> -> tensor<2x4xf32>
  %n = arith.uitofp %bytes : vector<4xi8> to vector<4xf32>
  func.return %r : tensor<2x4xf32>
}

// CHECK: %r = gather.gather %t, %i axis 0 batch_dims 0 bounds error : tensor<5x4xf32>, tensor<3xi64> -> tensor<3x4xf32>
func.func @as_written_0(%t: tensor<5x4xf32>, %i: tensor<3xi64>) {
  %r = gather.gather %t, %i axis 0 batch_dims 0 bounds error : tensor<5x4xf32>, tensor<3xi64> -> tensor<3x4xf32>
  func.return
}

// CHECK: %r = gather.gather %t, %i axis -2 batch_dims -1 bounds clip version "a \22b\22" {note} : tensor<5x4xf32>, tensor<3xi64> -> tensor<3x4xf32>
func.func @as_written_1(%t: tensor<5x4xf32>, %i: tensor<3xi64>) {
  %r = gather.gather %t, %i axis -2 batch_dims -1 bounds clip version "a \22b\22" {note} : tensor<5x4xf32>, tensor<3xi64> -> tensor<3x4xf32>
  func.return
}

// CHECK: gather.gather %d, %i8 into %o axis 0 batch_dims 0 bounds zero unsigned {note} : memref<5x4xi32>, memref<5xi8>, memref<5x4xi32>
func.func @as_written_2(%d: memref<5x4xi32>, %i8: memref<5xi8>, %o: memref<5x4xi32>) {
  gather.gather %d, %i8 into %o axis 0 batch_dims 0 bounds zero unsigned {note} : memref<5x4xi32>, memref<5xi8>, memref<5x4xi32>
  func.return
}

// CHECK: %r = gather.gather_grad %t, %i5 axis 0 batch_dims 0 bounds zero scale -5.000000e-01 version "v" : tensor<5x4xf32>, tensor<5xi64> -> tensor<9x4xf32>
func.func @as_written_3(%t: tensor<5x4xf32>, %i5: tensor<5xi64>) {
  %r = gather.gather_grad %t, %i5 axis 0 batch_dims 0 bounds zero scale -5.000000e-01 version "v" : tensor<5x4xf32>, tensor<5xi64> -> tensor<9x4xf32>
  func.return
}

// CHECK: %r = gather.gather_weighted %t, %w bounds zero unsigned_data unsigned : tensor<5x4xf32>, tensor<2x3x2xi32> -> tensor<2x4xf32>
func.func @as_written_4(%t: tensor<5x4xf32>, %w: tensor<2x3x2xi32>) {
  %r = gather.gather_weighted %t, %w bounds zero unsigned_data unsigned : tensor<5x4xf32>, tensor<2x3x2xi32> -> tensor<2x4xf32>
  func.return
}

// CHECK: gather.loop parallel a(%a) = %n to %n step %n {
// CHECK-NEXT: } {note}
func.func @as_written_5(%n: index) {
  gather.loop parallel a(%a) = %n to %n step %n {
    } {note}
  func.return
}

// CHECK: %s = gather.loop "a b"(%a) = %n to %n step %n sum {
// CHECK-NEXT: gather.yield %x : i64
// CHECK-NEXT: }
func.func @as_written_6(%n: index, %x: i64) {
  %s = gather.loop "a b"(%a) = %n to %n step %n sum {
      gather.yield %x : i64
    }
  func.return
}

// CHECK: %p, %v = gather.resolve %x within %n bounds wrap unsigned {note} : i64
func.func @as_written_7(%n: index, %x: i64) {
  %p, %v = gather.resolve %x within %n bounds wrap unsigned {note} : i64
  func.return
}

// CHECK: %p, %v = gather.resolve %x within %n bounds unchecked : i64
func.func @as_written_8(%n: index, %x: i64) {
  %p, %v = gather.resolve %x within %n bounds unchecked : i64
  func.return
}

// CHECK: %e = gather.masked_load %d[%n, %n], %m {note} : memref<5x4xi32> -> i32
func.func @as_written_9(%n: index, %m: i1, %d: memref<5x4xi32>) {
  %e = gather.masked_load %d[%n, %n], %m {note} : memref<5x4xi32> -> i32
  func.return
}

// CHECK: scf.parallel (%a, %b) = (%n, %n) to (%n, %n) step (%n, %n) {
// CHECK-NEXT: } {note}
func.func @as_written_10(%n: index) {
  scf.parallel (%a, %b) = (%n, %n) to (%n, %n) step (%n, %n) {
    } {note}
  func.return
}

// CHECK: func.func private @g() -> () attributes {mode = #gather<bounds zero>, view = #gather.view<outer[0, 1]>}
func.func private @g() -> () attributes {mode = #gather<bounds zero>, view = #gather.view<outer[0, 1]>}

// CHECK: func.func private @h(!gather.bytes<5, "|S5">, !gather.bytes<7, "void56">)
func.func private @h(!gather.bytes<5, "|S5">, !gather.bytes<7, "void56">)
