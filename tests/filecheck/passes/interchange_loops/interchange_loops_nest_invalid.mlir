// RUN: gathernest-opt %s -p "interchange-loops{order=b,a}" --verify-diagnostics --split-input-file

// expected-error@unknown {{memref.store between a and the next loop may not move}}
func.func @gather(%out: memref<6xi32>, %x: i32, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  gather.loop a(%i) = %c0 to %n step %c1 {
    memref.store %x, %out[%i] : memref<6xi32>
    gather.loop b(%j) = %c0 to %n step %c1 {
      memref.store %x, %out[%j] : memref<6xi32>
    }
  }
  func.return
}

// -----

// expected-error@unknown {{memref.load between a and the next loop may not move}}
func.func @gather(%out: memref<6xi32>, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  gather.loop a(%i) = %c0 to %n step %c1 {
    %x = memref.load %out[%i] : memref<6xi32>
    gather.loop b(%j) = %c0 to %n step %c1 {
      memref.store %x, %out[%j] : memref<6xi32>
    }
  }
  func.return
}

// -----

// expected-error@unknown {{memref.load between a and the next loop may not move}}
func.func @gather(%out: memref<?xi64>, %lanes: vector<8xi64>, %mask: vector<8xi1>, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  gather.loop a(%i) = %c0 to %n step %c1 {
    %x = memref.load %out[%i] : memref<?xi64>
    gather.loop b(%j) = %c0 to %n step %c1 {
      vector.compressstore %out[%j], %mask, %lanes : memref<?xi64>, vector<8xi1>, vector<8xi64>
    }
  }
  func.return
}

// -----

// expected-error@unknown {{scf.if between a and the next loop may not move}}
func.func @gather(%out: memref<6xi32>, %x: i32, %some: i1, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  gather.loop a(%i) = %c0 to %n step %c1 {
    %k = scf.if %some -> (index) {
      scf.yield %i : index
    } else {
      scf.yield %c0 : index
    }
    gather.loop b(%j) = %c0 to %n step %c1 {
      memref.store %x, %out[%k] : memref<6xi32>
    }
  }
  func.return
}

// -----

// expected-error@unknown {{a does not yield the sum of b}}
func.func @gather(%x: i64, %n: index) -> i64 {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %total = gather.loop a(%i) = %c0 to %n step %c1 sum {
    %sum = gather.loop b(%j) = %c0 to %n step %c1 sum {
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
  %total = gather.loop a(%i) = %c0 to %n step %c1 sum {
    %sum = gather.loop b(%j) = %c0 to %n step %c1 sum {
      gather.yield %x : i64
    }
    %twice = arith.addi %sum, %sum : i64
    gather.yield %sum : i64
  }
  func.return %total : i64
}

// -----

// expected-error@unknown {{the bounds of b come from another loop, which must stand around it}}
func.func @gather(%out: memref<6xi32>, %x: i32, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  gather.loop a(%i) = %c0 to %n step %c1 {
    gather.loop b(%j) = %i to %n step %c1 {
      memref.store %x, %out[%j] : memref<6xi32>
    }
  }
  func.return
}

// -----

// expected-error@unknown {{the bounds of b come from another loop, which must stand around it}}
func.func @gather(%out: memref<6xi32>, %x: i32, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  gather.loop a(%i) = %c0 to %n step %c1 {
    %end = arith.addi %i, %c1 : index
    gather.loop b(%j) = %c0 to %end step %c1 {
      memref.store %x, %out[%j] : memref<6xi32>
    }
  }
  func.return
}

// -----

// expected-error@unknown {{b, a do not stand in one perfect nest}}
func.func @gather(%out: memref<6xi32>, %x: i32, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  gather.loop a(%i) = %c0 to %n step %c1 {
    memref.store %x, %out[%i] : memref<6xi32>
  }
  gather.loop b(%j) = %c0 to %n step %c1 {
    memref.store %x, %out[%j] : memref<6xi32>
  }
  func.return
}
