// RUN: gathernest-opt %s -p promote-sums

// Two vectors of a row are two sums, which begin with zero; nothing is cleared.
// CHECK-LABEL: func.func @row
// CHECK-NOT: clear_indices
// CHECK: scf.for %i
// CHECK: %[[SUMS:.*]], %{{.*}} = scf.for %k = %{{.*}} iter_args(%[[A:.*]] = %zeros, %[[B:.*]] = %{{.*}}) -> (vector<4xf32>, vector<4xf32>)
// CHECK-NOT: memref<2x8xf32>
// CHECK: scf.yield
// CHECK: gather.loops = "bag"
// CHECK: vector.store %{{.*}}, %out[%i
// CHECK-NEXT: vector.store %{{.*}}, %out[%i
func.func @row(%data: memref<5x8xf32>, %indices: memref<2x3xindex>, %out: memref<2x8xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c3 = arith.constant 3 : index
  %c4 = arith.constant 4 : index
  %c8 = arith.constant 8 : index
  %nothing = arith.constant 0.0 : f32
  scf.for %b = %c0 to %c2 step %c1 {
    scf.for %e = %c0 to %c8 step %c1 {
      memref.store %nothing, %out[%b, %e] : memref<2x8xf32>
    } {gather.loops = "clear_inner"}
  } {gather.loops = "clear_indices"}
  scf.for %i = %c0 to %c2 step %c1 {
    scf.for %k = %c0 to %c3 step %c1 {
      %position = memref.load %indices[%i, %k] : memref<2x3xindex>
      scf.for %j = %c0 to %c8 step %c4 {
        %element = vector.load %data[%position, %j] : memref<5x8xf32>, vector<4xf32>
        %total = vector.load %out[%i, %j] : memref<2x8xf32>, vector<4xf32>
        %added = arith.addf %total, %element : vector<4xf32>
        vector.store %added, %out[%i, %j] : memref<2x8xf32>, vector<4xf32>
      } {gather.loops = "inner"}
    } {gather.loops = "bag"}
  } {gather.loops = "indices"}
  func.return
}

// A row of any size stays in memory, and so does what clears it.
// CHECK-LABEL: func.func @long
// CHECK: gather.loops = "clear_inner"
// CHECK: memref.load %out[%i, %j]
// CHECK: memref.store %added, %out[%i, %j]
func.func @long(%data: memref<5x?xf32>, %indices: memref<2x3xindex>, %out: memref<2x?xf32>, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c3 = arith.constant 3 : index
  %nothing = arith.constant 0.0 : f32
  scf.for %b = %c0 to %c2 step %c1 {
    scf.for %e = %c0 to %n step %c1 {
      memref.store %nothing, %out[%b, %e] : memref<2x?xf32>
    } {gather.loops = "clear_inner"}
  } {gather.loops = "clear_indices"}
  scf.for %i = %c0 to %c2 step %c1 {
    scf.for %k = %c0 to %c3 step %c1 {
      %position = memref.load %indices[%i, %k] : memref<2x3xindex>
      scf.for %j = %c0 to %n step %c1 {
        %element = memref.load %data[%position, %j] : memref<5x?xf32>
        %total = memref.load %out[%i, %j] : memref<2x?xf32>
        %added = arith.addf %total, %element : f32
        memref.store %added, %out[%i, %j] : memref<2x?xf32>
      } {gather.loops = "inner"}
    } {gather.loops = "bag"}
  } {gather.loops = "indices"}
  func.return
}

// What a branch adds, the branch gives: the sum as it was where nothing is added.
// CHECK-LABEL: func.func @branch
// CHECK: iter_args(%[[C:.*]] = %total
// CHECK: scf.if %inside -> (i32)
// CHECK: scf.yield %added
// CHECK: } else {
// CHECK-NEXT: scf.yield %[[C]]
// CHECK: memref.store %{{.*}}, %out[%c0]
func.func @branch(%out: memref<1xi32>, %element: i32, %inside: i1) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  scf.for %k = %c0 to %c3 step %c1 {
    scf.if %inside {
      %total = memref.load %out[%c0] : memref<1xi32>
      %added = arith.addi %total, %element : i32
      memref.store %added, %out[%c0] : memref<1xi32>
    }
  } {gather.loops = "bag"}
  func.return
}

// The division of a mean is done in registers, and its loop goes.
// CHECK-LABEL: func.func @mean
// CHECK: scf.for
// CHECK-NOT: divf
// CHECK: } {gather.loops = "bag"}
// CHECK: %divisors = vector.broadcast %divisor : f32 to vector<4xf32>
// CHECK-NEXT: %mean = arith.divf %{{.*}}, %divisors : vector<4xf32>
// CHECK-NEXT: vector.store %mean, %out[%{{.*}}, %{{.*}}]
// CHECK: %mean_1 = arith.divf
// CHECK-NEXT: vector.store %mean_1
// CHECK-NOT: scale_inner
func.func @mean(%data: memref<3x8xf32>, %out: memref<2x8xf32>, %divisor: f32) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %c4 = arith.constant 4 : index
  %c8 = arith.constant 8 : index
  scf.for %k = %c0 to %c3 step %c1 {
    scf.for %j = %c0 to %c8 step %c4 {
      %element = vector.load %data[%k, %j] : memref<3x8xf32>, vector<4xf32>
      %total = vector.load %out[%c0, %j] : memref<2x8xf32>, vector<4xf32>
      %added = arith.addf %total, %element : vector<4xf32>
      vector.store %added, %out[%c0, %j] : memref<2x8xf32>, vector<4xf32>
    } {gather.loops = "inner"}
  } {gather.loops = "bag"}
  scf.for %j = %c0 to %c8 step %c1 {
    %total = memref.load %out[%c0, %j] : memref<2x8xf32>
    %mean = arith.divf %total, %divisor : f32
    memref.store %mean, %out[%c0, %j] : memref<2x8xf32>
  } {gather.loops = "scale_inner"}
  func.return
}

// A loop that divides less than the row stays, and so does one over another row.
// CHECK-LABEL: func.func @part
// CHECK: vector.store
// CHECK: vector.store
// CHECK: arith.divf %{{.*}}, %divisor : f32
// CHECK: scale_inner
func.func @part(%data: memref<3x8xf32>, %out: memref<2x8xf32>, %divisor: f32) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %c4 = arith.constant 4 : index
  %c8 = arith.constant 8 : index
  scf.for %k = %c0 to %c3 step %c1 {
    scf.for %j = %c0 to %c8 step %c4 {
      %element = vector.load %data[%k, %j] : memref<3x8xf32>, vector<4xf32>
      %total = vector.load %out[%c0, %j] : memref<2x8xf32>, vector<4xf32>
      %added = arith.addf %total, %element : vector<4xf32>
      vector.store %added, %out[%c0, %j] : memref<2x8xf32>, vector<4xf32>
    } {gather.loops = "inner"}
  } {gather.loops = "bag"}
  scf.for %j = %c0 to %c4 step %c1 {
    %total = memref.load %out[%c0, %j] : memref<2x8xf32>
    %mean = arith.divf %total, %divisor : f32
    memref.store %mean, %out[%c0, %j] : memref<2x8xf32>
  } {gather.loops = "scale_inner"}
  func.return
}

// CHECK-LABEL: func.func @other
// CHECK: arith.divf %{{.*}}, %divisor : f32
// CHECK: scale_inner
func.func @other(%data: memref<3x8xf32>, %out: memref<2x8xf32>, %divisor: f32) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %c4 = arith.constant 4 : index
  %c8 = arith.constant 8 : index
  scf.for %k = %c0 to %c3 step %c1 {
    scf.for %j = %c0 to %c8 step %c4 {
      %element = vector.load %data[%k, %j] : memref<3x8xf32>, vector<4xf32>
      %total = vector.load %out[%c0, %j] : memref<2x8xf32>, vector<4xf32>
      %added = arith.addf %total, %element : vector<4xf32>
      vector.store %added, %out[%c0, %j] : memref<2x8xf32>, vector<4xf32>
    } {gather.loops = "inner"}
  } {gather.loops = "bag"}
  scf.for %j = %c0 to %c8 step %c1 {
    %total = memref.load %out[%c1, %j] : memref<2x8xf32>
    %mean = arith.divf %total, %divisor : f32
    memref.store %mean, %out[%c1, %j] : memref<2x8xf32>
  } {gather.loops = "scale_inner"}
  func.return
}

// A number that is known only behind the sums divides no register.
// CHECK-LABEL: func.func @late
// CHECK: %divisor = arith.addf
// CHECK: arith.divf %{{.*}}, %divisor : f32
// CHECK: scale_inner
func.func @late(%data: memref<3x8xf32>, %out: memref<2x8xf32>, %half: f32) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %c4 = arith.constant 4 : index
  %c8 = arith.constant 8 : index
  scf.for %k = %c0 to %c3 step %c1 {
    scf.for %j = %c0 to %c8 step %c4 {
      %element = vector.load %data[%k, %j] : memref<3x8xf32>, vector<4xf32>
      %total = vector.load %out[%c0, %j] : memref<2x8xf32>, vector<4xf32>
      %added = arith.addf %total, %element : vector<4xf32>
      vector.store %added, %out[%c0, %j] : memref<2x8xf32>, vector<4xf32>
    } {gather.loops = "inner"}
  } {gather.loops = "bag"}
  %divisor = arith.addf %half, %half : f32
  scf.for %j = %c0 to %c8 step %c1 {
    %total = memref.load %out[%c0, %j] : memref<2x8xf32>
    %mean = arith.divf %total, %divisor : f32
    memref.store %mean, %out[%c0, %j] : memref<2x8xf32>
  } {gather.loops = "scale_inner"}
  func.return
}

// A sum that is read before it is divided stays a sum until then.
// CHECK-LABEL: func.func @read
// CHECK: %seen = memref.load %out
// CHECK: arith.divf %{{.*}}, %divisor : f32
// CHECK: scale_inner
func.func @read(%data: memref<3x8xf32>, %out: memref<2x8xf32>, %divisor: f32) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %c4 = arith.constant 4 : index
  %c8 = arith.constant 8 : index
  scf.for %k = %c0 to %c3 step %c1 {
    scf.for %j = %c0 to %c8 step %c4 {
      %element = vector.load %data[%k, %j] : memref<3x8xf32>, vector<4xf32>
      %total = vector.load %out[%c0, %j] : memref<2x8xf32>, vector<4xf32>
      %added = arith.addf %total, %element : vector<4xf32>
      vector.store %added, %out[%c0, %j] : memref<2x8xf32>, vector<4xf32>
    } {gather.loops = "inner"}
  } {gather.loops = "bag"}
  %seen = memref.load %out[%c0, %c0] : memref<2x8xf32>
  memref.store %seen, %out[%c1, %c0] : memref<2x8xf32>
  scf.for %j = %c0 to %c8 step %c1 {
    %total = memref.load %out[%c0, %j] : memref<2x8xf32>
    %mean = arith.divf %total, %divisor : f32
    memref.store %mean, %out[%c0, %j] : memref<2x8xf32>
  } {gather.loops = "scale_inner"}
  func.return
}
