// RUN: gathernest-opt %s -p lower-nest-to-loops --verify-diagnostics --split-input-file

// expected-error@unknown {{a gather.gather_mean is left; run lower-to-nest first}}
func.func @gather(%data: memref<5x2xf32>, %indices: memref<3x4xi64>, %out: memref<3x2xf32>) {
  gather.gather_mean %data, %indices into %out bounds zero : memref<5x2xf32>, memref<3x4xi64>, memref<3x2xf32>
  func.return
}

// -----

// expected-error@unknown {{a gather.gather is left; run lower-to-nest first}}
func.func @gather(%data: memref<5xi32>, %indices: memref<3xi64>, %out: memref<3xi32>) {
  gather.gather %data, %indices into %out axis 0 batch_dims 0 bounds zero : memref<5xi32>, memref<3xi64>, memref<3xi32>
  func.return
}

// -----

// expected-error@unknown {{elements are complex<f32>; run erase-element-type first}}
func.func @gather(%data: memref<5xcomplex<f32>>, %mask: i1, %out: memref<3xcomplex<f32>>) {
  %c0 = arith.constant 0 : index
  %x = gather.masked_load %data[%c0], %mask : memref<5xcomplex<f32>> -> complex<f32>
  memref.store %x, %out[%c0] : memref<3xcomplex<f32>>
  func.return
}

// -----

// expected-error@unknown {{parallel loops cannot be shared as one: a has several loops}}
func.func @gather(%out: memref<6x6xi32>, %x: i32, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  gather.loop parallel a(%i) = %c0 to %n step %c1 {
    gather.loop parallel b(%j) = %c0 to %n step %c1 {
      memref.store %x, %out[%i, %j] : memref<6x6xi32>
    }
    gather.loop c(%k) = %c0 to %n step %c1 {
      memref.store %x, %out[%i, %k] : memref<6x6xi32>
    }
  }
  func.return
}

// -----

// expected-error@unknown {{the bounds of b come from a; only one of them can be parallel}}
func.func @gather(%out: memref<6x6xi32>, %x: i32, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  gather.loop parallel a(%i) = %c0 to %n step %c1 {
    %step = arith.addi %i, %c1 : index
    gather.loop parallel b(%j) = %c0 to %n step %step {
      memref.store %x, %out[%i, %j] : memref<6x6xi32>
    }
  }
  func.return
}

// -----

// What b stores to may be read once an iteration of a only.
// expected-error@unknown {{a does more than run b}}
func.func @gather(%out: memref<6x6xi32>, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  gather.loop parallel a(%i) = %c0 to %n step %c1 {
    %x = memref.load %out[%i, %c0] : memref<6x6xi32>
    gather.loop parallel b(%j) = %c0 to %n step %c1 {
      memref.store %x, %out[%i, %j] : memref<6x6xi32>
    }
  }
  func.return
}

// -----

// expected-error@unknown {{a does not yield the sum of b}}
func.func @gather(%x: i64, %n: index) -> i64 {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %total = gather.loop parallel a(%i) = %c0 to %n step %c1 sum {
    %sum = gather.loop parallel b(%j) = %c0 to %n step %c1 sum {
      gather.yield %x : i64
    }
    gather.yield %x : i64
  }
  func.return %total : i64
}

// -----

// expected-error@unknown {{a uses the sum of b}}
func.func @gather(%x: i64, %n: index) -> i64 {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %total = gather.loop parallel a(%i) = %c0 to %n step %c1 sum {
    %sum = gather.loop parallel b(%j) = %c0 to %n step %c1 sum {
      gather.yield %x : i64
    }
    %twice = arith.addi %sum, %sum : i64
    gather.yield %sum : i64
  }
  func.return %total : i64
}
